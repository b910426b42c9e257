//! `docs/protocol.md` and the code say the same: every table of the document is made from the code's own tables.
//!
//! After a change, write the tables anew with `NODERELAY_WRITE_DOCS=1 cargo test --release -p noderelay-proto --test document`
//! and read the difference as a change of the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use noderelay_proto::frame::Type;
use noderelay_proto::resume::{self, Binding, Claim, ResumeKey, Role};
use noderelay_proto::{Code, SessionId, Version};

const SOURCES: &[&str] = &[
    include_str!("../src/control/outer.rs"),
    include_str!("../src/control/inner.rs"),
    include_str!("../src/control/sequenced.rs"),
    include_str!("../src/control/resumption.rs"),
    include_str!("../src/control/holder.rs"),
    include_str!("../src/control/warm.rs"),
];
const LIMITS: &str = include_str!("../src/limits.rs");

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md")
}

fn frames() -> String {
    let mut out = String::from(
        "| number | frame | bound of the payload | sequenced | travels | for |\n|---|---|---|---|---|---|\n",
    );
    for frame in Type::ALL {
        let sequenced = if frame.sequenced() { "yes" } else { "" };
        let travels: Vec<_> = frame
            .directions()
            .iter()
            .map(|direction| format!("{direction:?}"))
            .collect();
        let (number, bound) = (frame.number(), frame.max_len());
        let travels = travels.join(", ");
        writeln!(
            out,
            "| 0x{number:02x} | {frame} | {bound} | {sequenced} | {travels} | {} |",
            frame.summary()
        )
        .unwrap();
    }
    out
}

fn codes() -> String {
    let mut out = String::from("| number | name | usually from | class | meaning |\n|---|---|---|---|---|\n");
    for code in Code::ALL {
        let (origin, class) = (code.origin().name(), code.class().name());
        writeln!(
            out,
            "| {} | `{}` | {origin} | {class} | {} |",
            code.number(),
            code.name(),
            code.summary()
        )
        .unwrap();
    }
    out
}

fn versions() -> String {
    let mut out = String::from("| version | outer ALPN | inner ALPN | what is new |\n|---|---|---|---|\n");
    for version in Version::ALL {
        let name = |alpn: &[u8]| String::from_utf8(alpn.to_vec()).unwrap();
        let (outer, inner) = (name(version.outer_alpn()), name(version.inner_alpn()));
        writeln!(
            out,
            "| {version} | `{outer}` | `{inner}` | {} |",
            version.changes().text.join(" ")
        )
        .unwrap();
    }
    out
}

/// The doc comment above the line `index`, as one line.
fn comment(lines: &[&str], index: usize) -> String {
    let above = lines[..index]
        .iter()
        .rev()
        .skip_while(|line| line.trim().starts_with("#["));
    let mut text: Vec<_> = above
        .map_while(|line| line.trim().strip_prefix("///"))
        .map(str::trim)
        .collect();
    text.reverse();
    text.join(" ")
}

fn limits() -> String {
    let lines: Vec<_> = LIMITS.lines().collect();
    let mut out = String::from("| bound | value | why |\n|---|---|---|\n");
    for (index, line) in lines.iter().enumerate() {
        let Some(rest) = line.strip_prefix("pub const ") else {
            continue;
        };
        let (name, rest) = rest.split_once(':').unwrap();
        let value = rest.split_once("= ").unwrap().1.trim_end_matches(';');
        writeln!(out, "| {name} | {value} | {} |", comment(&lines, index)).unwrap();
    }
    out
}

/// The protobuf type of a `#[prost(…)]` attribute.
fn field_type(attribute: &str, rust: &str) -> String {
    let words: Vec<_> = attribute.split(", ").collect();
    let inner = |text: &str| text.trim_end_matches('>').rsplit('<').next().unwrap().to_owned();
    let base = match words[0] {
        "message" => inner(rust),
        "bytes = \"bytes\"" => "bytes".to_owned(),
        other => match other.strip_prefix("enumeration = \"") {
            Some(name) => name.trim_end_matches('"').to_owned(),
            None => other.to_owned(),
        },
    };
    match words.iter().find(|word| ["repeated", "optional"].contains(*word)) {
        Some(label) if *label == "optional" && words[0] == "message" => base,
        Some(label) => format!("{label} {base}"),
        None => base,
    }
}

/// Every message and enumeration of the control modules: name → table.
fn messages() -> BTreeMap<String, String> {
    let mut tables = BTreeMap::new();
    for source in SOURCES {
        let lines: Vec<_> = source.lines().collect();
        let mut current: Option<(String, bool)> = None;
        for (index, line) in lines.iter().enumerate() {
            let attributes = lines[..index]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("#[") || line.starts_with("///"));
            let prost = attributes
                .copied()
                .any(|line| line.contains("prost::Message") || line.contains("prost::Enumeration"));
            if let Some(name) = line.strip_prefix("pub struct ").filter(|_| prost) {
                let name = name.trim_end_matches(" {").to_owned();
                tables.insert(
                    name.clone(),
                    "| field | name | type | meaning |\n|---|---|---|---|\n".to_owned(),
                );
                current = Some((name, false));
            } else if let Some(name) = line.strip_prefix("pub enum ").filter(|_| prost) {
                let name = name.trim_end_matches(" {").to_owned();
                tables.insert(name.clone(), "| value | name | meaning |\n|---|---|---|\n".to_owned());
                current = Some((name, true));
            } else if *line == "}" {
                current = None;
            } else if let Some((name, is_enum)) = &current {
                let table = tables.get_mut(name).unwrap();
                let line = line.trim();
                if let Some((variant, value)) = line.trim_end_matches(',').split_once(" = ").filter(|_| *is_enum) {
                    if !line.starts_with('#') {
                        writeln!(table, "| {value} | {variant} | {} |", comment(&lines, index)).unwrap();
                    }
                } else if let Some(rest) = line.strip_prefix("pub ").filter(|_| !is_enum) {
                    let (field, rust) = rest.trim_end_matches(',').split_once(": ").unwrap();
                    let attribute = lines[index - 1]
                        .trim()
                        .trim_start_matches("#[prost(")
                        .trim_end_matches(")]");
                    let tag = attribute.rsplit_once("tag = \"").unwrap().1.trim_end_matches('"');
                    let kind = field_type(attribute, rust);
                    writeln!(table, "| {tag} | `{field}` | {kind} | {} |", comment(&lines, index)).unwrap();
                }
            }
        }
    }
    tables
}

fn blocks() -> BTreeMap<String, String> {
    let mut blocks = messages();
    blocks.insert("frames".into(), frames());
    blocks.insert("codes".into(), codes());
    blocks.insert("versions".into(), versions());
    blocks.insert("limits".into(), limits());
    blocks
}

#[test]
fn the_tables_of_the_document_are_those_of_the_code() {
    let path = document();
    let mut text = std::fs::read_to_string(&path).unwrap();
    let write = std::env::var_os("NODERELAY_WRITE_DOCS").is_some();
    for (name, table) in blocks() {
        let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->"));
        let start = text
            .find(&begin)
            .unwrap_or_else(|| panic!("docs/protocol.md has no table of {name}"))
            + begin.len();
        let stop = start + text[start..].find(&end).unwrap();
        if write {
            text.replace_range(start..stop, &table);
        } else {
            assert_eq!(
                text[start..stop],
                table,
                "the table of {name} in docs/protocol.md is not that of the code"
            );
        }
    }
    if write {
        std::fs::write(&path, text).unwrap();
    }
}

#[test]
fn the_document_has_no_table_that_the_code_does_not_have() {
    let text = std::fs::read_to_string(document()).unwrap();
    let blocks = blocks();
    let named: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("<!-- begin ")?.strip_suffix(" -->"))
        .collect();
    assert_eq!(named.len(), blocks.len());
    assert!(named.iter().all(|name| blocks.contains_key(*name)));
}

#[test]
fn the_document_names_the_exact_labels_of_the_resume_proof() {
    let text = std::fs::read_to_string(document()).unwrap();
    for label in [resume::KEY_LABEL, resume::BINDING_LABEL] {
        assert!(text.contains(&format!("`{}`", std::str::from_utf8(label).unwrap())));
    }
    assert!(text.contains("`noderelay-session/1 resume\\0\\0`"));
}

#[test]
fn the_example_of_a_resume_proof_is_right() {
    let session = SessionId::new(*b"0123456789abcdef");
    let claim = Claim {
        role: Role::Client,
        session,
        epoch: 3,
        sent: 72_623_859_790_382_856,
        consumed: 258,
    };
    let proof = resume::sign(&ResumeKey::new([0x11; 32]), &claim, &Binding::new([0x22; 32]));
    let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = std::fs::read_to_string(document()).unwrap();
    assert!(text.contains(&format!("client: `{hex}`")), "{hex}");
}
