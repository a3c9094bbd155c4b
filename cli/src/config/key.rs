//! The settings that a configuration file and the environment may hold.

use std::str::FromStr;

use clap::ValueEnum;
use lockyard::LockUrl;

use crate::args::{Color, LogFormat, OnLost, duration};

/// One setting; its name in the file is [`Key::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Url,
    UrlFile,
    Namespace,
    Ttl,
    Renew,
    Wait,
    Jitter,
    OnLost,
    KillAfter,
    LogFormat,
    Color,
}

impl Key {
    pub(crate) const ALL: [Self; 11] = [
        Self::Url,
        Self::UrlFile,
        Self::Namespace,
        Self::Ttl,
        Self::Renew,
        Self::Wait,
        Self::Jitter,
        Self::OnLost,
        Self::KillAfter,
        Self::LogFormat,
        Self::Color,
    ];

    /// As it is written in the file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::UrlFile => "url_file",
            Self::Namespace => "namespace",
            Self::Ttl => "ttl",
            Self::Renew => "renew",
            Self::Wait => "wait",
            Self::Jitter => "jitter",
            Self::OnLost => "on_lost",
            Self::KillAfter => "kill_after",
            Self::LogFormat => "log_format",
            Self::Color => "color",
        }
    }

    /// The environment variable.
    pub(crate) fn variable(self) -> String {
        format!("LOCKYARD_{}", self.name().to_uppercase())
    }

    /// What holds where nobody says anything.
    pub(crate) const fn default(self) -> &'static str {
        match self {
            Self::Url => "file:",
            Self::UrlFile => "",
            Self::Namespace => "lockyard",
            Self::Ttl => "30s",
            Self::Renew => "a third of the ttl",
            Self::Wait | Self::Jitter => "0s",
            Self::OnLost => "terminate",
            Self::KillAfter => "a sixth of the ttl, at most 5s",
            Self::LogFormat => "text",
            Self::Color => "auto",
        }
    }

    /// Whether the text says something that this setting takes. The explanation never repeats a URL: it may hold a password.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Url => LockUrl::parse(text).map(drop).map_err(|_| "write a URL, such as redis://host/".to_owned()),
            Self::UrlFile | Self::Namespace if text.is_empty() => Err("it is empty".to_owned()),
            Self::UrlFile | Self::Namespace => Ok(()),
            Self::Ttl | Self::Renew | Self::Wait | Self::Jitter | Self::KillAfter => duration(text).map(drop),
            Self::OnLost => one_of::<OnLost>(text).map(drop),
            Self::LogFormat => one_of::<LogFormat>(text).map(drop),
            Self::Color => one_of::<Color>(text).map(drop),
        }
    }
}

/// The value of this word, as a flag would take it.
pub(crate) fn one_of<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        format!("write one of {}", names.join(", "))
    })
}

impl FromStr for Key {
    type Err = String;

    /// # Errors
    /// An unknown name, with the nearest known one.
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| {
            let distance = |key: &Self| strsim::damerau_levenshtein(key.name(), name);
            let nearest = Self::ALL.into_iter().min_by_key(distance).unwrap_or(Self::Url);
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("unknown key {name:?}: did you mean {:?}? Known keys: {}", nearest.name(), names.join(" "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_told_with_the_nearest_one() {
        for (wrong, near) in [("kil_after", "kill_after"), ("URL", "url"), ("name_space", "namespace")] {
            let error = wrong.parse::<Key>().expect_err(wrong);
            assert!(error.contains(&format!("did you mean {near:?}")) || wrong == "URL", "{error}");
        }
        for key in Key::ALL {
            assert_eq!(key.name().parse(), Ok(key));
        }
    }

    #[test]
    fn what_a_value_should_be_is_told_without_repeating_a_url() {
        let error = Key::Url.check("redis//u:secret@h").expect_err("no URL");
        assert!(!error.contains("secret"), "{error}");
        assert!(Key::OnLost.check("panic").expect_err("no such thing").contains("terminate, kill, ignore"));
        assert!(Key::Ttl.check("30").expect_err("no unit").contains("unit"));
        for key in [Key::Url, Key::Namespace, Key::Ttl, Key::OnLost, Key::LogFormat, Key::Color] {
            assert_eq!(key.check(key.default()), Ok(()), "{}", key.name());
        }
    }
}
