//! HTTP: a service that refuses a `Fencing-Token` older than the last one.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::put;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Checked, paused_and_next, token};

/// Kept where the body is kept, and as durably: a service that forgets the fence lets late holders in.
#[derive(Default)]
struct Report {
    fence: u64,
    body: String,
}

/// 204 stored, 409 a later holder has been here, 400 nobody says which holder this is.
async fn save(State(report): State<Arc<Mutex<Report>>>, headers: HeaderMap, body: String) -> StatusCode {
    let token = headers.get("Fencing-Token").and_then(|token| token.to_str().ok()?.parse().ok());
    let Some(token) = token else { return StatusCode::BAD_REQUEST };
    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
    if token < report.fence {
        return StatusCode::CONFLICT;
    }
    *report = Report { fence: token, body };
    StatusCode::NO_CONTENT
}

/// A request and the status of its answer.
async fn send(service: std::net::SocketAddr, fence: Option<u64>, body: &str) -> Checked<u16> {
    let fence = fence.map(|token| format!("Fencing-Token: {token}\r\n")).unwrap_or_default();
    let head =
        format!("PUT /report HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fence}Content-Length: {}", body.len());
    let mut stream = TcpStream::connect(service).await?;
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split(' ').nth(1).ok_or("no status")?.parse()?)
}

#[tokio::test]
async fn a_late_holder_is_answered_409() -> Checked {
    let (paused, next) = paused_and_next("memory://safety-http", "report").await?;
    let (old, new) = (token(&paused)?.get(), token(&next)?.get());
    let report = Arc::new(Mutex::new(Report::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/report", put(save)).with_state(Arc::clone(&report));
    let service = tokio::spawn(async move { axum::serve(listener, router).await });

    assert_eq!(send(address, Some(new), "next").await?, 204);
    assert_eq!(send(address, Some(new), "next, again").await?, 204);
    assert_eq!(send(address, Some(old), "late").await?, 409);
    assert_eq!(send(address, None, "whose?").await?, 400);
    assert_eq!(report.lock().unwrap_or_else(PoisonError::into_inner).body, "next, again");
    service.abort();
    Ok(())
}
