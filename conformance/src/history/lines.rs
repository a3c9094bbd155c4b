//! Histories as lines of JSON: the rules first, then events and faults, one a line.

use std::fmt;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Event, FaultWindow, History, Rules};

const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Head {
    schema: u32,
    rules: Rules,
}

impl History {
    /// Writes the history.
    ///
    /// # Errors
    /// What writing answered.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let mut line = |value: serde_json::Result<String>| writeln!(to, "{}", value?);
        line(serde_json::to_string(&Head { schema: SCHEMA, rules: self.rules.clone() }))?;
        self.faults.iter().try_for_each(|fault| line(serde_json::to_string(fault)))?;
        self.events.iter().try_for_each(|event| line(serde_json::to_string(event)))
    }

    /// Reads a history that [`History::write`] wrote.
    ///
    /// # Errors
    /// What reading answered, or the number of the line that is none of a history's.
    pub fn read(from: impl BufRead) -> Result<Self, ReadError> {
        let mut history = Self::default();
        for (at, line) in from.lines().enumerate() {
            let failed = |reason: String| ReadError { line: at + 1, reason };
            let line = line.map_err(|error| failed(error.to_string()))?;
            history.take_in(&line, at == 0).map_err(|error| failed(error.to_string()))?;
        }
        Ok(history)
    }

    fn take_in(&mut self, line: &str, first: bool) -> serde_json::Result<()> {
        let value: Value = serde_json::from_str(line)?;
        if first {
            let head: Head = serde_json::from_value(value)?;
            if head.schema != SCHEMA {
                let reason = format!("schema {} is not {SCHEMA}", head.schema);
                return Err(serde::de::Error::custom(reason));
            }
            self.rules = head.rules;
        } else if value.get("fault").is_some() {
            self.faults.push(serde_json::from_value::<FaultWindow>(value)?);
        } else {
            self.events.push(serde_json::from_value::<Event>(value)?);
        }
        Ok(())
    }
}

/// A file is no history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ReadError {}
