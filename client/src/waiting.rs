//! One line that says what is being waited for, once it has taken 300 ms.
//!
//! The line is on standard error and goes away when the wait is over. With `-v` every step is a line of its own, at once.
//! Nothing is shown when it would not be seen as it is meant: standard error is no terminal, or `-q`.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use noderelay_pki::text::escape;
use tokio::time::sleep;

/// What a person does not notice needs no words.
const AFTER: Duration = Duration::from_millis(300);

/// The line.
#[derive(Debug)]
pub struct Waiting {
    shown: bool,
    verbose: bool,
    what: RefCell<String>,
    on_screen: Cell<bool>,
    late: Cell<bool>,
}

impl Waiting {
    /// A line that is shown at all (`shown`), or step by step (`verbose`).
    pub fn new(shown: bool, verbose: bool) -> Self {
        Self {
            shown,
            verbose,
            what: RefCell::default(),
            on_screen: Cell::new(false),
            late: Cell::new(false),
        }
    }

    /// What is being waited for now.
    pub fn tell(&self, what: &str) {
        what.clone_into(&mut self.what.borrow_mut());
        if self.verbose {
            self.note(&format!("waiting for {what}"));
        } else if self.late.get() {
            self.draw();
        }
    }

    /// A line of its own. May hold text from elsewhere.
    pub fn note(&self, text: &str) {
        self.clear();
        write(&format!("noderelay: {}\n", escape(text, 500)));
    }

    /// Shows the line while `work` takes longer than it should.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let late = tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(AFTER) => !self.verbose,
        };
        if late {
            self.late.set(true);
            self.draw();
        }
        let done = work.await;
        self.clear();
        done
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.on_screen.replace(false) {
            write("\r\x1b[K");
        }
    }

    fn draw(&self) {
        if self.shown {
            self.on_screen.set(true);
            write(&format!("\r\x1b[Knoderelay: waiting for {}", self.what.borrow()));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.clear();
    }
}

fn write(text: &str) {
    // When nobody reads it, there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
