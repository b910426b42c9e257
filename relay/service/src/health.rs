//! Readiness by named parts: who is not ready says which part, and what is wrong with it.
//!
//! It never decides anything by it: a program that is not ready goes on with what it has.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A named part of readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name; stable, scripts look for it.
    pub name: &'static str,
    /// What is wrong with it, if anything.
    pub trouble: Option<String>,
}

/// Trouble by named part.
#[derive(Debug)]
pub struct Health(Mutex<BTreeMap<&'static str, Option<String>>>);

impl Health {
    /// The parts, all in order.
    pub fn new(parts: &[&'static str]) -> Self {
        Self(Mutex::new(parts.iter().map(|part| (*part, None)).collect()))
    }

    /// Says how a part is.
    pub fn set(&self, part: &'static str, trouble: Option<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(part, trouble);
    }

    /// All of them, by name.
    pub fn parts(&self) -> Vec<Part> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = |(name, trouble): (&&'static str, &Option<String>)| Part {
            name,
            trouble: trouble.clone(),
        };
        parts.iter().map(part).collect()
    }
}
