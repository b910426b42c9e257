//! Which words are the node, the command, options: the contract of the command line.

use super::*;

fn session(line: &[&str]) -> SessionArgs {
    let words = std::iter::once("noderelay")
        .chain(line.iter().copied())
        .map(OsString::from)
        .collect();
    match Cli::try_parse_from(with_shell_word(words)).unwrap().command {
        Command::Shell(s) => s,
        other => panic!("{other:?}"),
    }
}

fn command(line: &[&str]) -> Result<Command, clap::Error> {
    let words = std::iter::once("noderelay")
        .chain(line.iter().copied())
        .map(OsString::from)
        .collect();
    Cli::try_parse_from(with_shell_word(words)).map(|c| c.command)
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn options_end_at_the_node_and_all_words_after_it_are_the_commands() {
    let s = session(&[
        "--via-relay",
        "--reason",
        "doctor",
        "gpu-7",
        "ls",
        "-l",
        "--via-relay",
        "",
    ]);
    assert!(s.via_relay);
    assert_eq!(s.node, "gpu-7");
    assert_eq!(s.reason.as_deref(), Some("doctor"));
    assert_eq!(s.argv, ["ls", "-l", "--via-relay", ""]);
}

#[test]
fn a_double_dash_after_the_node_is_not_part_of_the_command() {
    assert_eq!(
        session(&["gpu-7", "--", "printf", "%s|", "a b"]).argv,
        ["printf", "%s|", "a b"]
    );
    assert_eq!(session(&["gpu-7", "--", "--help"]).argv, ["--help"]);
    assert_eq!(session(&["gpu-7", "--", "sh", "--", "x"]).argv, ["sh", "--", "x"]);
}

#[test]
fn a_node_with_a_subcommands_name_is_reached_by_shell() {
    assert!(matches!(command(&["doctor"]).unwrap(), Command::Doctor(_)));
    assert_eq!(session(&["shell", "doctor"]).node, "doctor");
}

#[test]
fn rsync_calls_us_as_it_calls_ssh() {
    let s = session(&[
        "-l",
        "root",
        "gpu-7",
        "rsync",
        "--server",
        "-vlogDtpre.iLsfxCIvu",
        ".",
        "/data",
    ]);
    assert_eq!((s.login.as_deref(), s.node.as_str()), (Some("root"), "gpu-7"));
    assert_eq!(s.argv.len(), 5);
}

#[test]
fn the_last_of_t_and_big_t_counts() {
    let s = session(&["-t", "-T", "n"]);
    assert!(s.no_tty && !s.tty);
}

#[test]
fn global_options_stand_anywhere() {
    let c = command(&["--config", "demo/config.yaml", "doctor", "local"]).unwrap();
    assert!(matches!(c, Command::Doctor(d) if d.node.as_deref() == Some("local")));
}

#[test]
fn a_missing_node_is_a_usage_error() {
    assert_eq!(
        command(&["--via-relay"]).unwrap_err().kind(),
        clap::error::ErrorKind::MissingRequiredArgument
    );
    assert!(command(&["-c", "uptime"]).is_err());
}

#[cfg(feature = "demo")]
#[test]
fn demo_takes_a_command_after_the_dashes() {
    match command(&["demo", "--", "sh", "-c", "exit 3"]).unwrap() {
        Command::Demo(d) => assert_eq!(d.argv, ["sh", "-c", "exit 3"]),
        other => panic!("{other:?}"),
    }
}

/// Every `noderelay WORD` and every option that a fix names exists: what is advised can be done.
#[test]
fn the_fixes_name_only_what_the_command_line_has() {
    let mut cli = Cli::command();
    cli.build();
    let mut named = 0;
    for (code, fix) in noderelay_client::message::fixes("NODE") {
        named += 1;
        if let Err(word) = all_exist(&cli, &fix) {
            panic!("{code:?}: {word}: {fix}");
        }
    }
    assert!(named > 50);
    for wrong in [
        "see noderelay login",
        "noderelay policy request FILE",
        "noderelay whoami --nonsense",
        "pass it with --grant FILE",
        "(noderelay frobnicate)",
        "noderelay -Z",
    ] {
        assert!(all_exist(&cli, wrong).is_err(), "{wrong}");
    }
}

/// Every command that is shown has examples in its help, and each example is a command line.
#[test]
fn every_command_has_examples_that_are_understood() {
    fn walk(command: &mut clap::Command, path: &str, seen: &mut Vec<String>) {
        for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{path} {}", sub.get_name());
            if sub.has_subcommands() {
                walk(sub, &path, seen);
                continue;
            }
            let help = sub.render_help().to_string();
            let examples = help
                .split_once("Examples:\n")
                .unwrap_or_else(|| panic!("{path} has no examples"))
                .1;
            // A line that ends with a backslash goes on.
            let mut lines: Vec<String> = vec![String::new()];
            for line in examples.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let last = lines.last_mut().unwrap();
                match line.strip_suffix('\\') {
                    Some(begun) => last.push_str(begun),
                    None => {
                        last.push_str(line);
                        lines.push(String::new());
                    }
                }
            }
            lines.pop();
            assert!(!lines.is_empty(), "{path}");
            for line in lines {
                // What stands behind several spaces explains, and `>` is the shell's.
                let words = line.split("  ").next().unwrap().split(" > ").next().unwrap();
                let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
                assert_eq!(words[0], "noderelay", "{path}: {line}");
                if let Err(error) = Cli::try_parse_from(with_shell_word(words)) {
                    panic!("{path}: {line}: {error}");
                }
            }
            seen.push(path);
        }
    }
    let mut cli = Cli::command();
    cli.build();
    let mut seen = Vec::new();
    walk(&mut cli, "", &mut seen);
    assert!(seen.len() >= 16, "{seen:?}");
}

/// The first command or option in `text` that does not exist.
fn all_exist<'a>(cli: &clap::Command, text: &'a str) -> Result<(), &'a str> {
    let plain = |word: &'a str| word.trim_matches(|c: char| "().,:;'".contains(c));
    let mut words = text.split(' ').map(plain).peekable();
    let mut session = vec![cli, cli.find_subcommand("shell").unwrap()];
    while let Some(word) = words.next() {
        if word.starts_with('-') && word != "--" {
            let known = session.iter().flat_map(|c| c.get_arguments()).any(|arg| {
                let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
                let short = arg.get_short().is_some_and(|short| word == format!("-{short}"));
                long || short
            });
            if !known {
                return Err(word);
            }
        }
        if word != "noderelay" {
            continue;
        }
        let mut command = cli;
        while let Some(next) = words.next_if(|next| next.starts_with(|c: char| c.is_ascii_lowercase())) {
            match command.find_subcommand(next) {
                Some(found) => command = found,
                // A command without commands of its own: the sentence goes on.
                None if !command.has_subcommands() => break,
                None => return Err(next),
            }
        }
        session.push(command);
    }
    Ok(())
}

#[test]
fn a_replay_has_a_pace_that_makes_sense() {
    for bad in [
        "--speed=nan",
        "--speed=0",
        "--speed=-1",
        "--speed=inf",
        "--idle=nan",
        "--idle=-1",
        "--idle=1e308",
    ] {
        let words = ["noderelay", "replay", bad, "file"].map(OsString::from);
        assert!(parse(words.into_iter()).is_err(), "{bad}");
    }
    for good in ["--speed=0.5", "--idle=0", "--idle=1.5"] {
        let words = ["noderelay", "replay", good, "file"].map(OsString::from);
        assert!(parse(words.into_iter()).is_ok(), "{good}");
    }
}
