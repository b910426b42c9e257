//! Fuzz body: one line of an audit log, as a reader gets it. It never panics, and what passes is written again without loss.

use crate::Record;

/// A line. What passes keeps its meaning, and what is written of it acts on no terminal.
pub fn line(bytes: &[u8]) {
    let Ok(record) = Record::from_json_line(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let written = record.to_json_line();
    assert!(written.is_ok(), "what was read can be written: {written:?}");
    for line in written.iter() {
        let shown = line.strip_suffix('\n').unwrap_or(line);
        assert!(
            !shown.contains(noderelay_pki::text::is_invisible),
            "unescaped: {line:?}"
        );
        assert_eq!(
            Record::from_json_line(line).ok().as_ref(),
            Some(&record),
            "nothing is lost"
        );
    }
}
