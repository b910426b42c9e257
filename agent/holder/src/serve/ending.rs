//! How a session ends: by the node's will, and in any case in order.
//!
//! ```text
//! end      input stops ─> HUP (KILL later, by the turn) ─> the command ends ─> drained ─┐
//! the command ends by itself ─────────────────────────────────────────────> drained ─┤
//! finish   jobs hung up on, the record says what stays ─> recording closed ─> END, EXIT or CLOSED
//! ```

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use noderelay_audit::{End, Outcome};
use noderelay_child::wait;
use noderelay_proto::control::{Closed, Exit, Notice};
use noderelay_proto::{Code, ToClient};

use super::Session;
use crate::entry::log;
use crate::processes::{self, Reach};
use crate::time::now;

/// The node ends the session.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) code: Code,
    pub(super) seen: String,
    pub(super) reach: Reach,
    pub(super) kill_at: Duration,
    pub(super) killed: bool,
    /// A process that not even KILL ends (stuck in the kernel) is not waited for any longer.
    pub(super) give_up_at: Duration,
}

/// Ends by nobody's decision leave alone what has left the session on purpose; ends by authority do not.
fn reach(code: Code) -> Reach {
    match code {
        Code::SessionIdle | Code::SessionWindow | Code::SessionLeft => Reach::Session,
        _ => Reach::Everything,
    }
}

impl Session {
    /// The node ends the session: no more input, HUP at once, KILL after the grace.
    pub(super) fn end(&mut self, code: Code, seen: String) {
        if self.finished {
            self.dismissed = true;
            return;
        }
        if self.ending.is_some() {
            return;
        }
        let _ = self.shell.note(&format!("ended by the node: {code} ({seen})"));
        self.input.close();
        let reach = reach(code);
        if self.exited.is_none() {
            self.hang_up(reach);
        }
        let grace = Duration::from_millis(self.start.hup_grace_ms.into());
        let kill_at = now().saturating_add(grace);
        let give_up_at = kill_at.saturating_add(grace.max(Duration::from_secs(1)));
        self.ending = Some(Ending {
            code,
            seen,
            reach,
            kill_at,
            killed: false,
            give_up_at,
        });
    }

    /// The likely ones first, without a look at the process table.
    fn hang_up(&self, reach: Reach) {
        let own = i32::try_from(self.shell.pid()).ok();
        for group in self.shell.front().into_iter().chain(own) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGHUP);
        }
        processes::signal(self.shell.pid(), reach, Signal::SIGHUP);
    }

    /// Everything was read: closes the recording, then says how it ended.
    pub(super) fn finish(&mut self, now: Duration) {
        self.leave_behind(now);
        let ended = self.exited;
        let code = self.ending.as_ref().map_or(Code::Ok, |ending| ending.code);
        let end = End {
            code: code.name().to_owned(),
            exit_code: ended.and_then(|ended| ended.code),
            signal: ended.and_then(|ended| ended.signal),
        };
        let recorded = self.shell.end(&end);
        let lacking = match &recorded {
            Ok(Outcome::Unsaved { cause }) => Some(format!("some of the recording is not on the disk: {cause}")),
            Ok(Outcome::Gaps) => Some("the recording has gaps, each with its length".to_owned()),
            Ok(Outcome::Complete) | Err(_) => None,
        };
        if let Some(seen) = lacking {
            log(&seen);
            // The person is told, and the agent's log does not call it complete.
            self.say(&ToClient::Notice(Notice {
                code: Code::RecordingIncomplete.number(),
                seconds_left: 0,
                seen: shortened(seen),
            }));
        }
        self.finished = true;
        self.limits.accompanied(false, now);
        let closed = match (self.ending.take(), recorded, ended) {
            (Some(ending), ..) => {
                let closed = Closed {
                    code: ending.code.number(),
                    seen: ending.seen.clone(),
                };
                self.ending = Some(ending);
                Some(closed)
            }
            (None, Err(error), _) => {
                log(&error.to_string());
                Some(Closed {
                    code: Code::RecordingFailed.number(),
                    seen: error.to_string(),
                })
            }
            (None, Ok(_), None) => Some(Closed {
                code: Code::AgentInternal.number(),
                seen: String::new(),
            }),
            (None, Ok(_), Some(ended)) => {
                self.push(ToClient::End);
                self.push(ToClient::Exit(Exit {
                    code: ended.code,
                    signal: ended.signal,
                    core_dumped: ended.core_dumped,
                }));
                None
            }
        };
        if let Some(mut closed) = closed {
            closed.seen = shortened(closed.seen);
            self.say(&ToClient::Closed(closed.clone()));
            self.closed = Some(closed);
        }
    }

    /// What still belongs to the session is hung up on, and killed after the grace; what has left it stands in the record.
    fn leave_behind(&mut self, now: Duration) {
        if wait::next() == wait::Next::Alone {
            return;
        }
        let leader = self.shell.pid();
        let reach = self.ending.as_ref().map_or(Reach::Session, |ending| ending.reach);
        let count = processes::signal(leader, reach, Signal::SIGHUP);
        if count > 0 {
            let _ = self.shell.note(&format!("hung up on {count} background processes"));
            self.sweep_at = Some(now.saturating_add(Duration::from_millis(self.start.hup_grace_ms.into())));
        }
        if reach == Reach::Session {
            let escaped = processes::escaped(leader);
            for process in escaped.iter().take(16) {
                let _ = self
                    .shell
                    .note(&format!("left running: {} (pid {})", process.name, process.pid));
            }
            if escaped.len() > 16 {
                let _ = self.shell.note(&format!("left running: {} more", escaped.len() - 16));
            }
        }
    }
}

/// The texts of CLOSED have a bound.
fn shortened(text: String) -> String {
    text.chars().take(noderelay_proto::limits::MAX_TEXT / 4).collect()
}
