//! What registries say is shown so that it can do no harm.

use puller_tests::{
    puller::Puller,
    scripted::{Answer, Any, Challenge, Lie, ScriptedRegistry},
};

use super::{first_error, small};

#[tokio::test]
async fn words_from_outside_are_bounded_and_escaped() {
    let registry = ScriptedRegistry::start().await;
    let puller = Puller::start().await;
    let megabyte = "A".repeat(1 << 20);
    let bodies: [(&str, Vec<u8>); 8] = [
        ("ansi", b"\x1b[31mred\x1b]0;title\x07\x1b[2J".to_vec()),
        ("lines", b"one\r\ntwo\nlevel=error msg=forged\x0b\x0c".to_vec()),
        ("nul", b"a\0b\x7f\x08\x08c".to_vec()),
        ("utf8", b"\xff\xfe\x80 broken \xc3".to_vec()),
        (
            "bidi",
            "\u{202e}txt.exe\u{2066}\u{feff}\u{85}\u{2028}"
                .as_bytes()
                .to_vec(),
        ),
        ("long", megabyte.clone().into_bytes()),
        (
            "json",
            br#"{"errors":[{"code":"\u001b[31m","message":"a\nb\u0000\u202e"}]}"#.to_vec(),
        ),
        (
            "longjson",
            format!(r#"{{"errors":[{{"code":"X","message":"{megabyte}"}}]}}"#).into_bytes(),
        ),
    ];
    for (name, body) in bodies {
        for status in [403, 500, 418] {
            let repository = format!("quote/{name}{status}");
            registry
                .on(Any::manifests().of(&repository))
                .then(Answer::status(status))
                .and(Lie::body(&body))
                .and(Lie::content_type("text/plain"));
            let (_, message) =
                first_error(&puller, &registry, &format!("{repository}:v1"), &small(name)).await;
            harmless(&message);
            assert!(message.contains(&status.to_string()), "{message}");
        }
        // The same in place of a manifest, where its beginning is quoted.
        let repository = format!("quote/manifest-{name}");
        registry
            .on(Any::manifests().of(&repository))
            .then(Lie::body(&body))
            .and(Lie::content_type("text/\"><script>"));
        let (_, message) = first_error(&puller, &registry, &format!("{repository}:v1"), &small(name)).await;
        harmless(&message);
    }
    let challenge = format!("Sch{} realm=\"\u{1b}\"", "e".repeat(5000)).replace('\u{1b}', "x");
    registry
        .on(Any::manifests().of("quote/challenge"))
        .then(Challenge::fields(&[challenge]));
    let (_, message) = first_error(&puller, &registry, "quote/challenge:v1", &small("challenge")).await;
    harmless(&message);
    harmless(&puller.log().replace('\n', " "));
}

/// Bounded, one line, and nothing that a terminal acts upon. A log is long, but has no such characters
/// either.
fn harmless(text: &str) {
    let odd = text.chars().find(|&c| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{feff}')
    });
    assert_eq!(odd, None, "{}", text.escape_debug());
    let longest = text.split(' ').map(str::len).max().unwrap_or_default();
    assert!(longest < 2000, "a word of {longest} bytes");
}
