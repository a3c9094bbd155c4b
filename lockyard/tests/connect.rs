//! From a URL to a backend: what is wrong is told before any traffic, and never with a secret in it.

use std::time::Duration;

use lockyard::{ErrorKind, Outcome, Scheme};

async fn refused(url: &str) -> lockyard::Error {
    match lockyard::connect(url).await {
        Ok(_) => panic!("{url} connects"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn bad_urls_say_what_and_how_to_mend_it() {
    for (url, word) in [
        ("", "scheme"),
        ("localhost:6379", "unknown scheme"),
        ("mysql://h", "redis:// postgres://"),
        ("redis://h?namespcae=x", "did you mean \"namespace\""),
        ("redis://h?fiar=false", "did you mean \"fair\""),
        ("postgres://h/db?lcok=row", "did you mean \"lock\""),
        ("postgres://h/db?lock=table", "lock"),
        ("etcd://h?tll=5s", "did you mean \"ttl\""),
        ("zk://h?ttl=5", "unit"),
        ("redis://h:0", "port"),
        ("etcd://h1,,h2", "no name"),
        ("redis://h/notanumber", "notanumber"),
        ("file://host/x", "slashes"),
        ("memory:?lock=row", "lock"),
        ("redis://h?namespace=a/b", "namespace"),
    ] {
        let error = refused(url).await;
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Config, Outcome::NotApplied), "{url}: {error}");
        assert!(error.to_string().contains(word), "{url}: {error}");
    }
}

#[tokio::test]
async fn what_is_not_offered_says_so() {
    for url in [
        "redis+sentinel://h1,h2:26380/service/3",
        "redis+cluster://h1,h2",
        "redis+redlock://h1,h2,h3?quorum=2",
        "rediss+sentinel://h1/service",
    ] {
        let error = refused(url).await;
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Outcome::NotApplied), "{url}: {error}");
    }
    // The URL is read before it is refused.
    assert_eq!(refused("redis+redlock://h1,h2,h3?quorom=2").await.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    // Nothing listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    for scheme in ["redis", "postgres", "etcd", "zk"] {
        let url = format!("{scheme}://user:s3cret@127.0.0.1:{port}/?connect_timeout=500ms&op_timeout=500ms");
        let started = lockyard::Clock::system().now();
        let error = refused(&url).await;
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{scheme}: {error}");
        assert!(error.to_string().contains(&port.to_string()), "{scheme}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{scheme}: a secret is told");
        assert!(lockyard::Clock::system().now().since(started) < Duration::from_secs(10), "{scheme} takes its time");
    }
}

/// The same grammar and the same errors as for locks.
#[tokio::test]
async fn registers_are_reached_by_the_same_urls() {
    let refused = async |url: &str| match lockyard::connect_register(url).await {
        Ok(_) => panic!("{url} connects"),
        Err(error) => error,
    };
    for url in ["mysql://h", "redis://h?fiar=false", "postgres://h/db?lock=table", "zk://h?ttl=5", "memory:?lock=row"] {
        let (lock, register) = (self::refused(url).await, refused(url).await);
        assert_eq!(lock.message(), register.message(), "{url}");
        assert_eq!((register.kind(), register.outcome()), (ErrorKind::Config, Outcome::NotApplied), "{url}");
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    for scheme in ["redis", "postgres", "etcd", "zk"] {
        let url = format!("{scheme}://user:s3cret@127.0.0.1:{port}/?connect_timeout=500ms&op_timeout=500ms");
        let error = refused(&url).await;
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::NotApplied), "{scheme}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{scheme}: a secret is told");
    }
}

#[test]
fn schemes() {
    for (url, scheme) in [
        ("memory:", Scheme::Memory),
        ("file:///x", Scheme::File),
        ("rediss://h", Scheme::Redis),
        ("redis+cluster://h", Scheme::Redis),
        ("postgresql://h", Scheme::Postgres),
        ("etcds://h", Scheme::Etcd),
        ("zookeeper://h", Scheme::Zookeeper),
        ("zks://h", Scheme::Zookeeper),
    ] {
        assert_eq!(Scheme::of(url).expect(url), scheme);
    }
}
