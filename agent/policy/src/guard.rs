//! Looks at a policy text before the parser does, and refuses what would exhaust the parser's stack.
//!
//! The parser descends once for each nested bracket, operator in front of an operand, and `else`; its depth is
//! bounded here, so that no signed text can end the process. Never: a judgement on what the text means.

/// Deepest nesting of a policy; people write 5, machines 20.
const MAX_DEPTH: usize = 64;
/// Longest text of one policy file.
pub(crate) const MAX_TEXT: usize = 1024 * 1024;
/// Most operators and alternatives in one policy.
const MAX_STEPS: usize = 1024;

/// Why a text is not given to the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the file has {0} bytes; at most {MAX_TEXT} are allowed")]
    Length(usize),
    #[error("brackets are nested deeper than {MAX_DEPTH}")]
    Depth,
    #[error("a single policy has more than {MAX_STEPS} operators; use sets, or several policies")]
    Size,
}

/// Checks length, nesting and size of each policy in the text.
pub(crate) fn check(text: &str) -> Result<(), Refused> {
    if text.len() > MAX_TEXT {
        return Err(Refused::Length(text.len()));
    }
    let (mut depth, mut steps) = (0_usize, 0_usize);
    let mut bytes = text.bytes().peekable();
    let mut word = [0_u8; 4];
    while let Some(byte) = bytes.next() {
        word.rotate_left(1);
        word[3] = byte;
        match byte {
            b'"' => {
                while let Some(inner) = bytes.next() {
                    match inner {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'/' if bytes.peek() == Some(&b'/') => {
                for comment in bytes.by_ref() {
                    if comment == b'\n' || comment == b'\r' {
                        break;
                    }
                }
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Refused::Depth);
                }
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b';' => steps = 0,
            b'!' | b'-' | b'+' | b'*' | b'&' | b'|' | b'.' | b'=' | b'<' | b'>' => steps += 1,
            b'e' if word == *b"else" => steps += 1,
            _ => {}
        }
        if steps > MAX_STEPS {
            return Err(Refused::Size);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
