//! The files of a report, and `lockyard report`, which renders them again.

use std::fs;
use std::path::Path;

use lockyard_benches::report::Report;

use super::conformance::write_file;
use super::judgement::Judgement;
use crate::args::{ExportArgs, ReportArgs};
use crate::exit::{Exit, Failure};
use crate::output::say;

pub(crate) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    let report = read(&args.file)?;
    let judgement = Judgement::read(&args.judged)?;
    let beside = args.file.parent().unwrap_or(Path::new("")).to_owned();
    let folder = args.out.clone().unwrap_or(beside);
    render(&report, &folder, &args.exports)?;
    say(format_args!("rendered {} again", args.file.display()));
    Ok(judgement.pronounce(&report))
}

/// The report in a file.
pub(super) fn read(file: &Path) -> Result<Report, Failure> {
    let shown = file.display();
    let json = fs::read_to_string(file).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    Report::from_json(&json).map_err(|error| Failure::usage(format!("{shown} is no report: {error}")))
}

/// Writes the data and what is rendered from it.
pub(super) fn write(report: &Report, folder: &Path, exports: &ExportArgs) -> Result<(), Failure> {
    make(folder)?;
    // First of all: everything else can be made of it again.
    write_file(&folder.join("report.json"), &report.to_json())?;
    render(report, folder, exports)
}

fn render(report: &Report, folder: &Path, exports: &ExportArgs) -> Result<(), Failure> {
    make(folder)?;
    let html = report.to_html().map_err(|error| Failure::internal(format!("cannot render the page: {error}")))?;
    let markdown = report.to_markdown();
    write_file(&folder.join("report.md"), &markdown)?;
    write_file(&folder.join("report.html"), &html)?;
    let (json, csv) = (report.to_json(), report.to_csv());
    let wanted = [
        (&exports.export_html, &html),
        (&exports.export_markdown, &markdown),
        (&exports.export_json, &json),
        (&exports.export_csv, &csv),
    ];
    for (path, text) in wanted {
        if let Some(path) = path {
            write_file(path, text)?;
        }
    }
    Ok(())
}

fn make(folder: &Path) -> Result<(), Failure> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| Failure::internal(format!("cannot make {}: {error}", folder.display())))
}
