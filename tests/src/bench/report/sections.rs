//! A report by its sections, so that a run replaces what it has measured, and keeps the rest.

use std::collections::BTreeMap;

/// What stands between these lines is written by hand, and kept.
const NOTES: (&str, &str) = ("<!-- notes -->", "<!-- end of notes -->");

/// How a section begins.
const HEADING: &str = "## ";

/// The text of each section, by its heading. The empty one is what stands before the first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    /// In the order in which they stood or came.
    order: Vec<String>,
    texts: BTreeMap<String, String>,
    notes: String,
}

impl Sections {
    /// Of a report's text; of an empty one, none.
    pub(super) fn of(text: &str) -> Self {
        let mut sections = Self::default();
        let (measured, rest) = text.split_once(NOTES.0).unwrap_or((text, ""));
        sections.notes = rest
            .split_once(NOTES.1)
            .map_or("\n", |(notes, _)| notes)
            .to_owned();
        let mut heading = "";
        let mut section = String::new();
        for line in measured.lines() {
            if let Some(next) = line.strip_prefix(HEADING) {
                sections.put(heading, std::mem::take(&mut section));
                heading = next;
            } else {
                section += line;
                section.push('\n');
            }
        }
        sections.put(heading, section);
        sections
    }

    /// Replaces a section, or adds it at the end.
    pub(super) fn put(&mut self, heading: &str, text: impl AsRef<str>) {
        if !self.texts.contains_key(heading) {
            self.order.push(heading.to_owned());
        }
        self.texts
            .insert(heading.to_owned(), text.as_ref().trim().to_owned());
    }

    /// The report's text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for heading in &self.order {
            if !heading.is_empty() {
                text = text + HEADING + heading + "\n\n";
            }
            text = text + &self.texts[heading] + "\n\n";
        }
        text + NOTES.0 + &self.notes + NOTES.1 + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "# Title\n\nMade so.\n\n## One\n\n| 1 |\n\n## Two\n\n| 2 |\n\n<!-- notes -->\n## Kept\n\n- all\n<!-- end of notes -->\n";

    #[test]
    fn what_is_not_measured_is_kept_to_the_letter() {
        assert_eq!(Sections::of(OLD).text(), OLD);
    }

    #[test]
    fn what_is_measured_takes_its_old_place_and_what_is_new_stands_last() {
        let mut sections = Sections::of(OLD);
        sections.put("One", "| one |\n");
        sections.put("Three", "| 3 |");
        let new = OLD
            .replace("| 1 |", "| one |")
            .replace("| 2 |\n\n", "| 2 |\n\n## Three\n\n| 3 |\n\n");
        assert_eq!(sections.text(), new);
    }

    #[test]
    fn the_first_report_has_a_place_for_notes() {
        let mut sections = Sections::of("");
        sections.put("", "# Title");
        assert_eq!(
            sections.text(),
            "# Title\n\n<!-- notes -->\n<!-- end of notes -->\n"
        );
    }
}
