//! The report as one HTML page that asks nobody for anything.

use askama::Template;

use super::model::Report;
use super::sections;
use super::table::Section;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    strip: String,
    sentences: [String; 3],
    sections: Vec<Section>,
    /// JSON that cannot end the element it stands in.
    json: String,
    command: &'a str,
}

impl Report {
    /// The report as one self-contained HTML page, readable without scripts. The same report gives the same bytes.
    ///
    /// # Errors
    /// When the template cannot be filled: never, as far as is known.
    pub fn to_html(&self) -> Result<String, askama::Error> {
        let page = Page {
            strip: self.strip(),
            sentences: self.sentences(),
            sections: sections::all(self),
            // Inside a script element only "</" and "<!--" mean anything to a browser.
            json: self.to_json().replace('<', "\\u003c"),
            command: &self.command,
        };
        page.render()
    }
}
