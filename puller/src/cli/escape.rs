//! Text of others (registries, claimants, archives) that goes to a terminal.

/// Whether a character does something to a terminal, or to what a reader sees, other than standing
/// there: controls (C0, DEL, C1), line and paragraph separators, bidirectional overrides, and
/// characters without width.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// One line of text that only stands there.
pub(super) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Whether a document of several lines only stands there.
pub(super) fn is_safe_layout(document: &str) -> bool {
    !document.contains(|c| is_hostile(c) && c != '\n')
}

/// A JSON document that only stands there; it stays the same document: outside its strings there is
/// nothing to escape but the line feeds of its layout.
pub(super) fn json(document: &str) -> String {
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if is_hostile(c) && c != '\n' {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_text_is_shown_and_not_obeyed() {
        assert_eq!(line("a\u{1b}[2J\r\nb"), "a\\u{1b}[2J\\r\\nb");
        assert_eq!(line("\u{9b}31m \u{202e}gpj.exe"), "\\u{9b}31m \\u{202e}gpj.exe");
        assert_eq!(line("Grüße, 世界 \\ \""), "Grüße, 世界 \\ \"");
    }

    proptest! {
        #[test]
        fn no_hostile_character_is_left(text in any::<String>()) {
            prop_assert!(!line(&text).contains(is_hostile));
        }

        #[test]
        fn json_stays_the_same_document(text in any::<String>()) {
            let document = serde_json::to_string(&text).unwrap();
            let safe = json(&document);
            prop_assert!(!safe.contains(is_hostile));
            prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        }
    }
}
