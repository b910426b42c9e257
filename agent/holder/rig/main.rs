//! The program that the tests start as holder and as child.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("child") => noderelay_child::child_main(),
        _ => match std::env::current_exe() {
            Ok(exe) => noderelay_holder::holder_main(&exe, &["child"]),
            Err(_) => ExitCode::FAILURE,
        },
    }
}
