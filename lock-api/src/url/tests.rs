use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

#[test]
fn urls_of_every_backend_are_taken_apart() {
    let url = LockUrl::parse("redis+sentinel://h1,h2:26380,[::1]:7/service/3").expect("sentinel");
    assert_eq!(url.hosts, [Host::new("h1", None), Host::new("h2", Some(26380)), Host::new("::1", Some(7))]);
    assert_eq!(url.path, "/service/3");
    assert_eq!(url.hosts[2].with_default_port(1), "[::1]:7");
    assert_eq!(LockUrl::parse("memory:").expect("memory").hosts, []);
    assert_eq!(LockUrl::parse("file:///var/lock").expect("file").path, "/var/lock");
    assert_eq!(LockUrl::parse("file:locks").expect("file").path, "locks");
    let url = LockUrl::parse("zk://u:p%2Fw@a,b/chroot/x").expect("zk");
    assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("u"), Some("p/w")));
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    for (text, word) in [
        ("redis", "scheme"),
        ("://x", "scheme"),
        ("redis://h:0", "port"),
        ("redis://h:99999", "port"),
        ("redis://h:x", "port"),
        ("redis://h1,,h2", "no name"),
        ("redis://[::1", "bracket"),
        ("redis://u:secret@h#x", "fragment"),
        ("redis://u:%ffsecret@h", "password"),
        ("redis://h?ttl", "no value"),
    ] {
        let error = LockUrl::parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(word) && !error.to_string().contains("secret"), "{text}: {error}");
    }
}

#[test]
fn an_unknown_key_is_told_with_the_nearest_known_one() {
    let mut url = LockUrl::parse("redis://h?namespcae=x").expect("parses");
    url.options().expect("no known key");
    let error = url.finish(&["fair"]).expect_err("unknown");
    assert!(
        error.message().contains("\"namespcae\"") && error.message().contains("did you mean \"namespace\""),
        "{error}"
    );
}

#[test]
fn values_are_checked() {
    for (query, word) in [
        ("ttl=30", "unit"),
        ("ttl=-1s", "unit"),
        ("ttl=0s", "no time"),
        ("drift=2", "drift"),
        ("drift=x", "number"),
        ("namespace=a:b", "namespace"),
        ("op_timeout=", "unit"),
    ] {
        let error = LockUrl::parse(&format!("redis://h?{query}")).expect("parses").options().expect_err(query);
        assert!(error.message().contains(word), "{query}: {error}");
    }
    let options = LockUrl::parse("redis://h?namespace=&ttl=1500ms").expect("parses").options().expect("fine");
    assert!(options.namespace.is_empty());
    assert_eq!(options.ttl, Duration::from_millis(1500));
}

proptest! {
    #[test]
    fn nothing_panics(text in ".{0,80}") {
        if let Ok(mut url) = LockUrl::parse(&text) {
            let _ = url.options();
            let _ = url.finish(&[]);
        }
    }

    #[test]
    fn a_url_without_secrets_survives_a_round_trip(
        user in proptest::option::of("[a-z]{1,8}"),
        hosts in proptest::collection::vec(("[a-z][a-z0-9.-]{0,8}", proptest::option::of(1..=65535_u16)), 1..4),
        path in "(/[a-z0-9]{1,5}){0,3}",
    ) {
        let url = LockUrl {
            scheme: "etcd".to_owned(),
            user,
            password: None,
            hosts: hosts.into_iter().map(|(name, port)| Host { name, port }).collect(),
            path,
            query: Vec::new(),
        };
        prop_assert_eq!(LockUrl::parse(&url.redacted()).expect("its own form"), url);
    }
}
