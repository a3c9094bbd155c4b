//! The spans of an acquire, its hold and its release, as a subscriber sees them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use lockyard_api::{Locker, Namespace};
use lockyard_memory::{MemoryOptions, MemoryServer};
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(level: tracing_subscriber::filter::LevelFilter) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(level)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let server = MemoryServer::new(MemoryOptions::default());
            let connect = || {
                let builder = Locker::builder(server.connect(Namespace::default()));
                builder.label("web-2").build().expect("inside a runtime")
            };
            let (locks, other) = (connect(), connect());
            let guard = locks.acquire("job").await.expect("free");
            assert!(other.try_acquire("job").await.expect("answered").is_none());
            guard.release().await.expect("answered");
        });
    });
    String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("text")
}

#[test]
fn an_acquire_a_hold_and_a_release_are_spans_with_their_outcome() {
    let text = logged(tracing_subscriber::filter::LevelFilter::TRACE);
    let closed = |span: &str, outcome: &str| {
        let outcome = format!(r#""lock.outcome":"{outcome}""#);
        let name = format!(r#""name":"{span}""#);
        text.lines()
            .any(|line| line.contains(r#""message":"close""#) && line.contains(&name) && line.contains(&outcome))
    };
    assert!(closed("lockyard.acquire", "acquired"), "{text}");
    assert!(closed("lockyard.acquire", "contended"), "{text}");
    assert!(closed("lockyard.hold", "ended"), "{text}");
    assert!(closed("lockyard.release", "released"), "{text}");
    assert!(text.contains(r#""lock.holder":"web-2""#) && text.contains(r#""lock.token":"#), "{text}");
    assert!(!text.contains("ERROR") && !text.contains("WARN"), "contention is no error: {text}");
}

#[test]
fn nobody_pays_for_spans_below_the_level_that_is_listened_to() {
    let text = logged(tracing_subscriber::filter::LevelFilter::INFO);
    assert_eq!(text, "");
}
