//! SPECIFICATION.md: each promise names the tests that hold it.
//!
//! A row is `| promise | tests |`; a test is written in back-ticks as `path/to/file.rs::name`, several are separated
//! by spaces or `<br>`. The file must exist, hold a function of that name, and that function must be a test that
//! runs: an ignored test holds no promise.

use std::collections::BTreeMap;

use super::Text;

/// The file of promises.
pub(crate) const FILE: &str = "SPECIFICATION.md";

/// Promises without a test that exists and runs.
pub(crate) fn findings(document: &Text, sources: &[Text]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut rows = 0;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, line) in document.text.lines().enumerate() {
        let Some((promise, tests)) = row(line) else { continue };
        rows += 1;
        let place = format!("{FILE}:{}", index + 1);
        if let Some(earlier) = seen.insert(promise.to_owned(), index + 1) {
            findings.push(format!("{place}: is the same promise as in line {earlier}"));
        }
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            findings.push(format!(
                "{place}: \"{promise}\" names no test (write `path/to/file.rs::name`)"
            ));
        }
        findings.extend(
            named
                .iter()
                .filter_map(|test| Some(format!("{place}: {}", missing(test, sources)?))),
        );
    }
    if rows == 0 {
        findings.push(format!("{FILE}: holds no promise"));
    }
    findings
}

/// Promise and tests of a table row; headings, rulers and other lines are no rows.
fn row(line: &str) -> Option<(&str, &str)> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let (promise, tests) = inner.rsplit_once('|')?;
    let (promise, tests) = (promise.trim(), tests.trim());
    let ruler = !tests.is_empty() && tests.chars().all(|c| matches!(c, '-' | ':' | ' '));
    (!ruler && !promise.eq_ignore_ascii_case("promise")).then_some((promise, tests))
}

/// Why a named test cannot hold a promise, if it cannot.
fn missing(test: &str, sources: &[Text]) -> Option<String> {
    let Some((path, name)) = test.rsplit_once("::") else {
        return Some(format!("`{test}` is not of the form path/to/file.rs::name"));
    };
    let Some(source) = sources.iter().find(|source| source.path == path) else {
        return Some(format!("`{path}` does not exist"));
    };
    let lines: Vec<&str> = source.text.lines().collect();
    let heads = [format!("fn {name}("), format!("fn {name}<")];
    let Some(at) = lines
        .iter()
        .position(|line| heads.iter().any(|head| line.contains(head.as_str())))
    else {
        return Some(format!("`{path}` has no test `{name}`"));
    };
    let attributes: Vec<&str> = lines
        .iter()
        .take(at)
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .filter(|line| line.starts_with("#["))
        .collect();
    if attributes.iter().any(|line| line.starts_with("#[ignore")) {
        return Some(format!("`{test}` is ignored, so it holds nothing"));
    }
    let runs = attributes.iter().any(|line| line.contains("test"));
    (!runs).then(|| format!("`{test}` is a function, but no test"))
}
