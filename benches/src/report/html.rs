//! The report as one HTML page that asks nobody for anything.

use askama::Template;
use serde_json::Value;

use super::model::Report;
use super::sections;
use super::table::Section;

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    strip: String,
    sentences: [String; 3],
    sections: Vec<Section>,
    /// JSON that cannot end the element it stands in.
    json: String,
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
            json: self.compact().replace('<', "\\u003c"),
        };
        page.render()
    }

    /// The data without indentation and without what is null, which reads back the same: they are a third as large.
    fn compact(&self) -> String {
        // Nothing in it can fail to be written: the keys are text and the numbers finite.
        let mut data = serde_json::to_value(self).unwrap_or_default();
        strip(&mut data);
        data.to_string()
    }
}

/// Takes all nulls out of all objects.
fn strip(data: &mut Value) {
    match data {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::report::Report;

    /// What stands between `before` and the next quote, each time.
    fn all<'a>(page: &'a str, before: &str) -> BTreeSet<&'a str> {
        page.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn every_link_of_the_page_and_of_the_markdown_leads_somewhere() {
        let report = Report::from_json(include_str!("../../tests/data/quick.json")).expect("a report");
        let page = report.to_html().expect("a page");
        let (ids, links) = (all(&page, " id=\""), all(&page, "href=\"#"));
        assert!(links.len() > 50 && links.is_subset(&ids), "{:?}", links.difference(&ids));
        let text = report.to_markdown();
        let anchors = all(&text, "<a id=\"");
        let links: BTreeSet<&str> = text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(links.is_subset(&anchors), "{:?}", links.difference(&anchors));
        for section in ["fits", "numbers", "charts", "safety", "capabilities", "method", "environment", "noise", "raw"]
        {
            assert!(ids.contains(section) && anchors.contains(section), "{section}");
        }
    }
}
