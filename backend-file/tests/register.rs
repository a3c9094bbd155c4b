//! What a register leaves on the disk, and what it makes of what it finds there.

use lockyard_api::{ErrorKind, FencedRegister, FencingToken, LockName, Outcome, Version, Write};
use lockyard_file::{FileConfig, FileRegister};

async fn register(directory: &tempfile::TempDir) -> FileRegister {
    FileRegister::connect(FileConfig::new(directory.path())).await.expect("a directory of our own")
}

fn name() -> LockName {
    LockName::new("a/b").expect("a name")
}

fn token() -> FencingToken {
    FencingToken::from_server(3).expect("small")
}

/// A crash between the two steps of a write: the old value stands, and the next write is not in its way.
#[tokio::test]
async fn a_write_that_was_cut_short_is_as_if_it_never_was() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let register = register(&directory).await;
    let Ok(Write::Written { version }) = register.write(&name(), b"old", token(), Version::ABSENT).await else {
        panic!("the first write");
    };
    let path = register.path(&name());
    let unfinished = path.with_extension("register.new");
    assert!(!unfinished.exists(), "a write leaves its file alone");
    std::fs::write(&unfinished, "0000000000000000").expect("a file beside it");
    assert_eq!(register.read(&name()).await.expect("readable").value.as_deref(), Some(&b"old"[..]));
    let next = register.write(&name(), b"new", token(), version).await.expect("writable");
    assert!(matches!(next, Write::Written { .. }), "{next:?}");
    assert!(!unfinished.exists());
    assert_eq!(register.read(&name()).await.expect("readable").value.as_deref(), Some(&b"new"[..]));
}

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_told_and_kept() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let register = register(&directory).await;
    for foreign in ["x", "00000000000000000001 00000000000000000768", "99999999999999999999 00000000000000000768 "] {
        std::fs::write(register.path(&name()), foreign).expect("writable");
        let error = register.read(&name()).await.expect_err("no register");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::NotApplied), "{error}");
        let error = register.write(&name(), b"new", token(), Version::ABSENT).await.expect_err("no register");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::NotApplied), "{error}");
        assert_eq!(std::fs::read_to_string(register.path(&name())).expect("still there"), foreign);
    }
}

/// A write whose caller has gone is made to its end or not begun: never half.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_write_is_whole_or_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let register = register(&directory).await;
    let long = vec![b'x'; 100_000];
    for _ in 0..20 {
        let found = register.read(&name()).await.expect("readable");
        let name = name();
        let mut write = Box::pin(register.write(&name, &long, token(), found.version));
        let _ = polled_once(&mut write).await;
        drop(write);
        let value = register.read(&name).await.expect("readable").value;
        assert!(value.is_none_or(|value| value == long));
    }
    // The last of them may still be under way: whoever comes next waits for it.
    let found = loop {
        let found = register.read(&name()).await.expect("readable");
        match register.write(&name(), b"end", token(), found.version).await.expect("writable") {
            Write::Written { version } => break version,
            other => assert!(matches!(other, Write::Conflict { .. }), "{other:?}"),
        }
    };
    assert_eq!(register.read(&name()).await.expect("readable").version, found);
}

/// Polls once.
async fn polled_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match std::pin::Pin::new(&mut *future).poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
