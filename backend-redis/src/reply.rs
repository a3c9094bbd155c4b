//! What the scripts answer, and what the wake-up messages say. Nothing that arrives makes these panic.

use std::time::Duration;

use lockyard_api::{FencingToken, Holder, Owner};
use redis::Value;

/// The answer of the acquire script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The owner holds the lock; this is the server's number of the token.
    Granted(u64),
    /// Somebody else does, for so long unless it renews; `None`: for ever.
    Busy(Option<Duration>),
    /// The same, and the owner stands at this place of the queue, counted from 1.
    Queued(Option<Duration>, u64),
}

impl Acquired {
    pub(crate) fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::BulkString(token) => number(token).map(Self::Granted),
            Value::Int(left) => Some(Self::Busy(remaining(*left))),
            Value::Array(parts) => match parts.as_slice() {
                [Value::Int(left), Value::Int(place)] => {
                    Some(Self::Queued(remaining(*left), u64::try_from(*place).ok()?.max(1)))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// A message of the wake-up channel: the lock went to this owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handed {
    pub(crate) owner: Owner,
    /// The server's number of the token.
    pub(crate) number: u64,
    /// The request whose entry was granted.
    pub(crate) request: u64,
    pub(crate) lock_key: String,
}

impl Handed {
    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(message).ok()?.splitn(4, ' ');
        Some(Self {
            owner: Owner::parse(parts.next()?)?,
            number: parts.next()?.parse().ok()?,
            request: parts.next()?.parse().ok()?,
            lock_key: parts.next()?.to_owned(),
        })
    }
}

/// The answer of the inspect script.
pub(crate) fn holder(value: &Value) -> Option<Option<Holder>> {
    let parts = match value {
        Value::Nil => return Some(None),
        Value::Array(parts) => parts,
        _ => return None,
    };
    let [Value::BulkString(owner), Value::Int(left), Value::BulkString(record), Value::Int(waiters), seconds, micros] =
        parts.as_slice()
    else {
        return None;
    };
    let mut holder = Holder::new();
    holder.owner = std::str::from_utf8(owner).ok().and_then(Owner::parse);
    holder.expires_in = remaining(*left);
    holder.waiters = u64::try_from(*waiters).ok();
    match Record::parse(record).filter(|record| Some(record.owner) == holder.owner) {
        Some(record) => {
            let now = time(text(seconds)?, text(micros)?)?;
            holder.token = FencingToken::from_server(record.number).ok();
            holder.held_for = Some(now.saturating_sub(record.since));
            holder.origin = Some(record.origin.to_owned());
            holder.label = (!record.label.is_empty()).then(|| record.label.into());
        }
        None => holder.origin = Some("another program".to_owned()),
    }
    Some(Some(holder))
}

/// The server's number of the last token, out of the token key.
#[cfg(feature = "testing")]
pub(crate) fn last_number(record: &[u8]) -> Option<u64> {
    number(record.get(..20)?)
}

/// What the token key keeps of the last grant: `token owner seconds microseconds origin label`.
struct Record<'a> {
    number: u64,
    owner: Owner,
    since: Duration,
    origin: &'a str,
    label: &'a str,
}

impl<'a> Record<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.splitn(6, ' ');
        Some(Self {
            number: parts.next()?.parse().ok()?,
            owner: Owner::parse(parts.next()?)?,
            since: time(parts.next()?, parts.next()?)?,
            origin: parts.next()?,
            label: parts.next().unwrap_or_default(),
        })
    }
}

fn time(seconds: &str, micros: &str) -> Option<Duration> {
    Duration::from_secs(seconds.parse().ok()?).checked_add(Duration::from_micros(micros.parse().ok()?))
}

/// A PTTL: −1 is a key without expiry.
fn remaining(left: i64) -> Option<Duration> {
    if left == -1 { None } else { Some(Duration::from_millis(u64::try_from(left).unwrap_or(0))) }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn answers_of_the_acquire_script() {
        let granted = Acquired::parse(&bulk("00000000002179000000"));
        assert_eq!(granted, Some(Acquired::Granted(2_179_000_000)));
        assert_eq!(Acquired::parse(&Value::Int(-1)), Some(Acquired::Busy(None)));
        assert_eq!(Acquired::parse(&Value::Int(-2)), Some(Acquired::Busy(Some(Duration::ZERO))));
        let queued = Value::Array(vec![Value::Int(7), Value::Int(2)]);
        assert_eq!(Acquired::parse(&queued), Some(Acquired::Queued(Some(Duration::from_millis(7)), 2)));
        for strange in [
            bulk(""),
            bulk("x"),
            bulk("99999999999999999999"),
            Value::Nil,
            Value::Okay,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1), Value::Int(-3)]),
            Value::Double(1.0),
        ] {
            assert_eq!(Acquired::parse(&strange), None, "{strange:?}");
        }
    }

    #[test]
    fn messages() {
        let text = format!("{} 00000000000000000007 12 shop:a b", Owner::from_bits(5));
        let handed = Handed::parse(text.as_bytes()).expect("a good message");
        assert_eq!((handed.owner, handed.number, handed.request), (Owner::from_bits(5), 7, 12));
        assert_eq!(handed.lock_key, "shop:a b");
        for strange in
            ["", "x", "x 1 2 k", &format!("{} x 2 k", Owner::from_bits(5)), &format!("{} 1 2", Owner::from_bits(5))]
        {
            assert_eq!(Handed::parse(strange.as_bytes()), None, "{strange:?}");
        }
        assert_eq!(Handed::parse(&[0xff, 0xfe]), None);
    }

    #[test]
    fn a_holder_is_told_as_far_as_it_is_known() {
        let owner = Owner::from_bits(9).to_string();
        let record = format!("00000000000000000042 {owner} 100 500000 web-1:77 nightly sync");
        let answer = |owner: &str, record: &str, left| {
            Value::Array(vec![bulk(owner), Value::Int(left), bulk(record), Value::Int(3), bulk("102"), bulk("0")])
        };
        let known = holder(&answer(&owner, &record, 900)).flatten().expect("held");
        assert_eq!((known.owner, known.token.map(FencingToken::server_number)), (Some(Owner::from_bits(9)), Some(42)));
        assert_eq!(known.held_for, Some(Duration::from_millis(1500)));
        assert_eq!((known.label.as_deref(), known.origin.as_deref()), (Some("nightly sync"), Some("web-1:77")));
        assert_eq!((known.expires_in, known.waiters), (Some(Duration::from_millis(900)), Some(3)));
        let foreign = holder(&answer("redsync", &record, -1)).flatten().expect("held");
        assert_eq!((foreign.owner, foreign.token, foreign.expires_in), (None, None, None));
        assert_eq!(holder(&Value::Nil), Some(None));
        assert_eq!(holder(&Value::Int(1)), None);
    }
}
