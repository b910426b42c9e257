//! The log of the client: nothing as a rule; with `-v` on standard error. Parts of the demo that are processes of their own
//! set up their logs themselves.

use noderelay_pki::text::LogLines;
use tracing_subscriber::filter::LevelFilter;

/// Sets it up for the warm process, in a file that is bounded.
pub fn to(log: noderelay_client::warm::log::Log) {
    let set = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_writer(move || LogLines::text(log.clone()))
        .with_ansi(false)
        .try_init();
    // Only a second set-up fails, and there is none.
    let _ = set;
}

/// Sets it up for that many `-v`.
pub fn init(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let set = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| LogLines::text(std::io::stderr()))
        // No colours: nothing in a line may act on the terminal that shows it.
        .with_ansi(false)
        .try_init();
    // Only a second set-up fails, and there is none.
    let _ = set;
}
