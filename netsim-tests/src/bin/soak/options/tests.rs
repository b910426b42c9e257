//! What is asked on the command line, and what is refused.

use super::*;

fn parse(words: &[&str]) -> Result<Options> {
    Options::parse(words.iter().map(|word| (*word).to_owned()))
}

#[test]
fn words_are_understood_or_named() {
    let options = parse(&["--for", "2m", "--idle", "7", "--report", "x.md"]).unwrap();
    assert_eq!(options.load.duration(), Duration::from_secs(120));
    assert_eq!((options.every, options.idle), (Duration::from_secs(3), 7));
    assert_eq!(options.report.unwrap(), PathBuf::from("x.md"));
    assert_eq!(parse(&[]).unwrap().load.to_string(), "1h");
    for (words, said) in [
        (&["--for", "1s"][..], "too short"),
        (&["--for"][..], "needs a value"),
        (&["--fast"][..], "unknown option --fast"),
    ] {
        let error = parse(words).err().unwrap().to_string();
        assert!(error.contains(said), "{error}");
    }
}
