//! Documents of the register: JSON with a version.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::RecordError;

/// A document of the register. What it does not know of its own version it carries along.
pub(crate) trait Document:
    Clone + Debug + Default + PartialEq + Send + Sync + Serialize + DeserializeOwned
{
    /// The version that is written, and the latest that is read.
    const VERSION: u64 = 1;

    /// What is wrong with its content, if anything is.
    fn problem(&self) -> Option<String> {
        None
    }

    /// The document in a value of this register; a new one where there is none.
    fn decode(value: Option<&[u8]>, register: &str) -> Result<Self, RecordError> {
        let Some(value) = value else { return Ok(Self::default()) };
        let damaged = |problem: String| damaged(register, &problem);
        let mut json: Map<String, Value> = serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
        match json.remove("v").as_ref().and_then(Value::as_u64) {
            Some(found) if found > Self::VERSION => return Err(RecordError::Newer { found, known: Self::VERSION }),
            Some(found) if found == Self::VERSION => {}
            _ => return Err(damaged("it names no version".to_owned())),
        }
        let document: Self = serde_json::from_value(Value::Object(json)).map_err(|error| damaged(error.to_string()))?;
        match document.problem() {
            None => Ok(document),
            Some(problem) => Err(damaged(problem)),
        }
    }

    /// The value for the register.
    fn encode(&self, register: &str) -> Result<Vec<u8>, RecordError> {
        serde_json::to_vec(&Versioned { v: Self::VERSION, document: self })
            .map_err(|error| damaged(register, &error.to_string()))
    }
}

fn damaged(register: &str, problem: &str) -> RecordError {
    RecordError::Damaged { register: register.to_owned(), problem: shortened(problem) }
}

/// Text of others, cut to a length that is fit for a record.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}

#[derive(Serialize)]
struct Versioned<'a, D: Serialize> {
    v: u64,
    #[serde(flatten, serialize_with = "through")]
    document: &'a D,
}

fn through<D: Serialize, S: Serializer>(document: &&D, serializer: S) -> Result<S::Ok, S::Error> {
    document.serialize(serializer)
}
