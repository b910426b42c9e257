//! `noderelay policy test`: the test tables of a policy repository, asked and compared.
//!
//! ```text
//! tests/*.yaml ─> Table::parse ─> run against the repository's policy ─> what failed, and a count      (and JUnit XML)
//! ```
//!
//! Never: a table that is skipped. One that cannot be read fails the command, and so does a repository without any test.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use noderelay_pki::files;
use noderelay_policy::table::{Table, Tried};

use super::source::Source;
use crate::args::TestArgs;
use crate::out;

/// The folder of the tables.
pub(super) const FOLDER: &str = "tests";
/// Largest table.
const MAX_TABLE: usize = 4 * 1024 * 1024;

/// Runs every table.
pub(super) fn run(args: TestArgs, now: Timestamp) -> Result<ExitCode> {
    let source = Source::repository(&args.dir)?;
    let set = source.policy()?;
    let domain = source.fleet()?.trust_domain;
    let mut suites = Vec::new();
    for (name, table) in tables(&args.dir)? {
        suites.push((name, table.run(&set, &domain, now)));
    }
    if let Some(file) = &args.junit {
        let xml = junit(&suites);
        // A pipe or a device takes it as it comes.
        match file.metadata().is_ok_and(|facts| !facts.is_file()) {
            true => std::fs::write(file, xml).with_context(|| format!("{}", file.display()))?,
            false => files::write_atomic(file, xml.as_bytes(), 0o644)?,
        }
    }
    let all = || {
        suites
            .iter()
            .flat_map(|(name, tried)| tried.iter().map(move |tried| (name, tried)))
    };
    let mut text = String::new();
    for (name, tried) in all().filter(|(_, tried)| !tried.failures.is_empty()) {
        text.push_str(&format!("FAILED {name}: {}\n{}", tried.name, told(tried, "  ")));
    }
    let failed = all().filter(|(_, tried)| !tried.failures.is_empty()).count();
    text.push_str(&format!("{} passed, {failed} failed\n", all().count() - failed));
    out::text(&text)?;
    Ok(super::code(failed == 0))
}

/// The tables by name, in the order of names.
fn tables(dir: &Path) -> Result<Vec<(String, Table)>> {
    let folder = dir.join(FOLDER);
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("{}: test tables are YAML files in this folder", folder.display()))?;
    let mut tables = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".yaml") || name.ends_with(".yml") {
            let name = format!("{FOLDER}/{name}");
            let table = Table::parse(&files::read_bounded(&path, MAX_TABLE)?).with_context(|| name.clone())?;
            tables.push((name, table));
        }
    }
    if tables.is_empty() {
        bail!(
            "{} holds no test table (NAME.yaml): write one, or take one from a new `noderelay policy init`",
            folder.display()
        );
    }
    tables.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(tables)
}

fn told(tried: &Tried, indent: &str) -> String {
    let failures = tried.failures.iter();
    let mut text: String = failures
        .map(|failure| {
            format!(
                "{indent}{}: expected {}, seen {}\n",
                failure.what, failure.expected, failure.seen
            )
        })
        .collect();
    for line in tried.answer.lines() {
        text.push_str(&format!("{indent}{line}\n"));
    }
    text
}

/// What build servers read.
fn junit(suites: &[(String, Vec<Tried>)]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (name, tried) in suites {
        let failed = tried.iter().filter(|tried| !tried.failures.is_empty()).count();
        xml.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\">\n",
            in_xml(name),
            tried.len()
        ));
        for tried in tried {
            let case = format!(
                "    <testcase classname=\"{}\" name=\"{}\"",
                in_xml(name),
                in_xml(&tried.name)
            );
            match tried.failures.first() {
                None => xml.push_str(&format!("{case}/>\n")),
                Some(first) => xml.push_str(&format!(
                    "{case}>\n      <failure message=\"{}: expected {}, seen {}\">{}</failure>\n    </testcase>\n",
                    in_xml(first.what),
                    in_xml(&first.expected),
                    in_xml(&first.seen),
                    in_xml(&told(tried, ""))
                )),
            }
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Text as XML holds it: markup and quotes escaped, what XML has no character for shown with its number.
fn in_xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push('\n'),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => {
                safe.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
            }
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    //! Whatever a test's name holds, the report is XML.

    use super::in_xml;

    #[test]
    fn nothing_in_a_name_ends_its_attribute() {
        assert_eq!(
            in_xml("a<b>&\"c\"\u{7}\u{0}d\ne"),
            "a&lt;b&gt;&amp;&quot;c&quot;\\u{7}\\u{0}d\ne"
        );
        assert_eq!(in_xml("grüße"), "grüße");
    }
}
