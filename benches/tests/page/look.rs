//! Looks at a page in a browser and says what is wrong with it.

use std::path::Path;

use chromiumoxide::Page;
use chromiumoxide::cdp::browser_protocol::emulation::{
    MediaFeature, SetDeviceMetricsOverrideParams, SetEmulatedMediaParams,
};
use chromiumoxide::cdp::browser_protocol::log::EventEntryAdded;
use chromiumoxide::cdp::browser_protocol::network::{EnableParams, EventRequestWillBeSent};
use chromiumoxide::cdp::browser_protocol::page::{CaptureScreenshotParams, PrintToPdfParams, Viewport};
use chromiumoxide::cdp::js_protocol::runtime::{EventConsoleApiCalled, EventExceptionThrown};
use chromiumoxide::listeners::EventStream;
use futures_util::{FutureExt, StreamExt};

use crate::browser::View;

/// A screenshot shows no more than this of a page: browsers draw no picture of any height.
const HEIGHT: f64 = 6_000.0;

type Outcome<T> = chromiumoxide::error::Result<T>;

/// What is wrong with a page in these views. Pictures go into `folder`, where one is given.
pub(crate) async fn complaints(page: &Page, html: &str, views: &[View], folder: Option<&Path>) -> Outcome<Vec<String>> {
    let home = tempfile::tempdir().expect("a folder for the page");
    let file = home.path().join("report.html");
    std::fs::write(&file, html).expect("a page on disk");
    let url = format!("file://{}", file.display());
    let mut ears = Ears::open(page).await?;
    let mut found = Vec::new();
    for view in views.iter().copied() {
        emulate(page, view).await?;
        page.goto(url.as_str()).await?;
        let seen: Vec<String> = page.evaluate(include_str!("look.js")).await?.into_value()?;
        found.extend(seen.into_iter().map(|what| format!("{view}: {what}")));
        found.extend(ears.heard(&url).into_iter().map(|what| format!("{view}: {what}")));
        if let Some(folder) = folder {
            let picture = screenshot(page, view).await?;
            assert!(picture.starts_with(b"\x89PNG"), "{view}: no picture");
            std::fs::write(folder.join(format!("{view}.png")), picture).expect("a picture on disk");
        }
    }
    Ok(found)
}

/// The page as it is printed.
pub(crate) async fn print(page: &Page, folder: &Path) -> Outcome<()> {
    let pdf = page.pdf(PrintToPdfParams::builder().prefer_css_page_size(true).print_background(true).build()).await?;
    assert!(pdf.starts_with(b"%PDF"), "no PDF");
    std::fs::write(folder.join("print.pdf"), pdf).expect("a PDF on disk");
    Ok(())
}

async fn emulate(page: &Page, view: View) -> Outcome<()> {
    let scheme = if view.dark { "dark" } else { "light" };
    let media = SetEmulatedMediaParams::builder()
        .media(if view.print { "print" } else { "screen" })
        .feature(MediaFeature::new("prefers-color-scheme", scheme))
        .build();
    page.execute(media).await?;
    page.execute(SetDeviceMetricsOverrideParams::new(i64::from(view.width), 800, 1.0, false)).await?;
    Ok(())
}

async fn screenshot(page: &Page, view: View) -> Outcome<Vec<u8>> {
    let height: f64 = page.evaluate("document.documentElement.scrollHeight").await?.into_value()?;
    let clip = Viewport { x: 0.0, y: 0.0, width: f64::from(view.width), height: height.min(HEIGHT), scale: 1.0 };
    page.screenshot(CaptureScreenshotParams::builder().clip(clip).capture_beyond_viewport(true).build()).await
}

/// What a page says and asks for.
struct Ears {
    requests: EventStream<EventRequestWillBeSent>,
    entries: EventStream<EventEntryAdded>,
    calls: EventStream<EventConsoleApiCalled>,
    exceptions: EventStream<EventExceptionThrown>,
}

impl Ears {
    async fn open(page: &Page) -> Outcome<Self> {
        page.execute(EnableParams::default()).await?;
        page.enable_log().await?;
        page.enable_runtime().await?;
        Ok(Self {
            requests: page.event_listener().await?,
            entries: page.event_listener().await?,
            calls: page.event_listener().await?,
            exceptions: page.event_listener().await?,
        })
    }

    /// What came since it was asked last. Events come in order: those of what has been answered are here.
    fn heard(&mut self, own: &str) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(Some(event)) = self.requests.next().now_or_never() {
            if event.request.url != own {
                heard.push(format!("it asked for {}", event.request.url));
            }
        }
        while let Some(Some(event)) = self.entries.next().now_or_never() {
            heard.push(format!("it logged: {}", event.entry.text));
        }
        while let Some(Some(event)) = self.calls.next().now_or_never() {
            heard.push(format!("a script wrote to the console: {:?}", event.r#type));
        }
        while let Some(Some(event)) = self.exceptions.next().now_or_never() {
            heard.push(format!("a script failed: {}", event.exception_details.text));
        }
        heard
    }
}
