//! The client library with a panic on cue, as a program that is built to abort on panics: for the test that the terminal
//! is restored even then. `panicking-client CONFIG CUE` opens a shell on `local` and panics when the file CUE appears.

use std::path::PathBuf;
use std::time::Duration;

use noderelay_client::session::{SessionOptions, run_session};

fn main() -> std::process::ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [config, cue] = arguments.as_slice() else {
        eprintln!("panicking-client CONFIG CUE");
        return 2.into();
    };
    // What `panic = "abort"` does: hooks run, destructors do not. Set first, so that the client's hook is in front of it.
    let message = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        message(info);
        std::process::abort();
    }));
    let cue = cue.clone();
    std::thread::spawn(move || {
        while !cue.exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("panicked on cue");
    });
    let options = SessionOptions {
        config: Some(config.clone()).into(),
        ..SessionOptions::shell("local")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.expect("a runtime").block_on(run_session(options));
    outcome.exit_code().into()
}
