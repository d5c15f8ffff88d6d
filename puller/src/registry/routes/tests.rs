//! Routes, by the rules of containers-registries.conf(5).

use proptest::prelude::*;

use super::*;
use crate::domain::Reference;

fn parsed(text: &str) -> Table {
    Table::parse(text).unwrap().0
}

fn problem(text: &str) -> String {
    File::parse(text).unwrap_err()
}

/// The endpoints as `registry/repository`, mirrors with a `~` in front, insecure ones with a `!`.
fn route(text: &str, registry: &str, repository: &str, by_tag: bool) -> Vec<String> {
    match parsed(text).route(registry, repository, by_tag) {
        Route::Blocked { prefix } => vec![format!("blocked by {prefix}")],
        Route::Endpoints(endpoints) => endpoints
            .iter()
            .map(|endpoint| {
                let mirror = if endpoint.mirror { "~" } else { "" };
                let insecure = if endpoint.insecure { "!" } else { "" };
                format!("{mirror}{insecure}{}/{}", endpoint.registry, endpoint.repository)
            })
            .collect(),
    }
}

#[test]
fn without_an_entry_a_name_stands_for_itself() {
    assert_eq!(route("", "quay.io", "a/b", true), ["quay.io/a/b"]);
}

#[test]
fn mirrors_go_first_and_prefixes_are_replaced_by_locations() {
    let text = r#"
        [[registry]]
        prefix = "quay.io/team"
        location = "new.io:5000/old/team"
        [[registry.mirror]]
        location = "Mirror.io/cache"
        [[registry.mirror]]
        location = "[fd00::1]:5000"
        insecure = true
    "#;
    assert_eq!(
        route(text, "quay.io", "team/app", true),
        [
            "~mirror.io/cache/app",
            "~![fd00::1]:5000/app",
            "new.io:5000/old/team/app"
        ]
    );
    // A mirror that would leave no path is left out.
    assert_eq!(
        route(text, "quay.io", "team", true),
        ["~mirror.io/cache", "new.io:5000/old/team"]
    );
    assert_eq!(route(text, "quay.io", "teams/app", true), ["quay.io/teams/app"]);
    assert_eq!(
        route(text, "quay.io:443", "team/app", true),
        ["quay.io:443/team/app"]
    );
}

#[test]
fn the_longest_prefix_counts_and_a_wildcard_is_for_subdomains_only() {
    let text = r#"
        [[registry]]
        prefix = "*.example.com"
        location = "all.io/mirror"
        [[registry]]
        prefix = "*.b.example.com"
        blocked = true
        [[registry]]
        prefix = "*.local"
        blocked = true
        [[registry]]
        location = "a.example.com"
        insecure = true
        [[registry]]
        location = "a.example.com/x/y"
    "#;
    for (registry, repository, expected) in [
        ("c.example.com", "n", "all.io/mirror/n"),
        ("d.c.example.com:5000", "n", "all.io/mirror/n"),
        ("example.com", "n", "example.com/n"),
        ("notexample.com", "n", "notexample.com/n"),
        ("c.b.example.com", "n", "blocked by *.b.example.com"),
        ("c.b.example.com:5000", "n", "blocked by *.b.example.com"),
        ("a.local:5000", "n", "blocked by *.local"),
        ("b.example.com", "n", "all.io/mirror/n"),
        ("a.example.com", "x", "!a.example.com/x"),
        ("a.example.com", "x/yy", "!a.example.com/x/yy"),
        ("a.example.com", "x/y/z", "a.example.com/x/y/z"),
    ] {
        assert_eq!(
            route(text, registry, repository, true),
            [expected],
            "{registry}/{repository}"
        );
    }
}

#[test]
fn mirrors_can_be_for_tags_or_for_digests_only() {
    let text = r#"
        [[registry]]
        location = "a.io"
        [[registry.mirror]]
        location = "tags.io"
        pull-from-mirror = "tag-only"
        [[registry.mirror]]
        location = "digests.io"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "all.io"
        pull-from-mirror = "all"
    "#;
    assert_eq!(
        route(text, "a.io", "n", true),
        ["~tags.io/n", "~all.io/n", "a.io/n"]
    );
    assert_eq!(
        route(text, "a.io", "n", false),
        ["~digests.io/n", "~all.io/n", "a.io/n"]
    );
    let text = "[[registry]]\nlocation = \"a.io\"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = \"m.io\"";
    assert_eq!(route(text, "a.io", "n", true), ["a.io/n"]);
    assert_eq!(route(text, "a.io", "n", false), ["~m.io/n", "a.io/n"]);
}

#[test]
fn docker_hub_has_one_name() {
    let text = "[[registry]]\nprefix = \"index.docker.io\"\nlocation = \"docker.io\"\n[[registry.mirror]]\nlocation = \"mirror.gcr.io\"";
    let docker: Reference = "docker.io/nginx:1".parse().unwrap();
    assert_eq!(
        route(text, &docker.registry, &docker.repository, true),
        ["~mirror.gcr.io/library/nginx", "docker.io/library/nginx"]
    );
}

#[test]
fn later_files_replace_and_extend() {
    let mut table = Table::default();
    for text in [
        "unqualified-search-registries = [\"a.io\", \"b.io\"]\n[aliases]\nx = \"a.io/x\"\ny = \"a.io/y\"\n[[registry]]\nlocation = \"r.io\"\nblocked = true",
        "[aliases]\ny = \"\"\nz = \"c.io/z\"\n[[registry]]\nlocation = \"r.io\"",
        "unqualified-search-registries = [\"c.io\"]",
    ] {
        table.extend(File::parse(text).unwrap().0);
    }
    assert!(matches!(table.route("r.io", "n", true), Route::Endpoints(_)));
    assert_eq!(table.written_out("x:1").unwrap().unwrap(), "a.io/x:1");
    assert_eq!(table.written_out("y:1").unwrap().unwrap(), "c.io/y:1");
    assert_eq!(
        table.written_out("z@sha256:0").unwrap().unwrap(),
        "c.io/z@sha256:0"
    );
}

#[test]
fn names_without_a_registry_are_written_out_only_where_it_says_so() {
    let none = parsed("");
    let one = parsed(
        "unqualified-search-registries = [\"docker.io\"]\n[aliases]\n\"team/app\" = \"quay.io/team/app\"",
    );
    for (asked, written_out) in [
        ("nginx", Some("docker.io/nginx")),
        ("nginx:1.27", Some("docker.io/nginx:1.27")),
        ("team/app:v1", Some("quay.io/team/app:v1")),
        ("team/app:v1@sha256:00", Some("quay.io/team/app:v1@sha256:00")),
        ("team/app2:v1", Some("docker.io/team/app2:v1")),
        ("localhost/x:v1", None),
        ("host:5000/x:v1", None),
        ("[fd00::1]/x:v1", None),
        ("quay.io/x:v1", None),
    ] {
        assert_eq!(none.written_out(asked).unwrap(), None);
        assert_eq!(one.written_out(asked).unwrap().as_deref(), written_out);
    }
    let several = parsed("unqualified-search-registries = [\"a.io\", \"b.io\"]");
    let problem = several.written_out("nginx:1.27").unwrap_err();
    assert!(problem.contains("a.io/nginx, b.io/nginx"), "{problem}");
}

/// What containers/image takes must not keep a puller from starting.
#[test]
fn files_of_the_field_are_understood() {
    for text in [
        "[[registry]]\nlocation = \"a.io/\"\n[[registry.mirror]]\nlocation = \"m.io/x//\"",
        "\u{feff}[[registry]]\r\nprefix = \"a.io/\"\r\n[[registry.mirror]]\r\nlocation = \"m.io/x\"\r\n",
        "credential-helpers = [\"containers-auth.json\"]\nshort-name-mode = \"\"\n\
         registry = [{location = \"a.io\", mirror = [{location = \"m.io/x\", pull-from-mirror = \"\"}]}]",
        "additional-layer-store-auth-helper = \"x\"\n[[registry]]\nprefix = \"\"\nlocation = \"A.io\"\n\
         blocked = false\nmirror-by-digest-only = false\n[[registry.mirror]]\nlocation = \"M.io/x\"\n[aliases]\n",
    ] {
        let (table, _) = Table::parse(text).unwrap();
        let Route::Endpoints(endpoints) = table.route("a.io", "n", true) else {
            panic!("{text}")
        };
        let places: Vec<_> = endpoints
            .iter()
            .map(|endpoint| format!("{}/{}", endpoint.registry, endpoint.repository))
            .collect();
        assert_eq!(places, ["m.io/x/n", "a.io/n"], "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_and_what_is_unknown_is_left_alone() {
    for (text, part) in [
        ("[[registry]]\ninsecure = true", "neither prefix nor location"),
        ("[[registry]]\nlocation = \"https://a.io\"", "is a URL"),
        ("[[registry]]\nlocation = \"/\"", "not host"),
        ("[[registry]]\nlocation = \"a.io/x:v1\"", "tag or a digest"),
        ("[[registry]]\nlocation = \"a.io/X\"", "not host"),
        ("[[registry]]\nlocation = \"a b\"", "not host"),
        ("[[registry]]\nprefix = \"*.a.io/x\"", "behind *."),
        ("[[registry]]\nprefix = \"*.a.io:1\"", "behind *."),
        (
            "[[registry]]\nlocation = \"a.io\"\n[[registry.mirror]]\n",
            "missing",
        ),
        (
            "[[registry]]\nlocation = \"a.io\"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = \"m.io\"\npull-from-mirror = \"all\"",
            "exclude",
        ),
        (
            "[[registry]]\nlocation = \"a.io\"\n[[registry.mirror]]\nlocation = \"m.io\"\npull-from-mirror = \"some\"",
            "unknown variant",
        ),
        ("[[registry]]\nlocation = 1", "line 2"),
        ("short-name-mode = \"guess\"", "line 1"),
        ("[registries.search]\nregistries = [\"a.io\"]", "version 1"),
        ("nonsense", "line 1"),
    ] {
        assert!(problem(text).contains(part), "{text}: {}", problem(text));
    }
    let (_, unknown) = File::parse(
        "a = 1\n[[registry]]\nlocation = \"a.io\"\nb = 1\n[[registry.mirror]]\nlocation = \"m.io\"\nc = 1",
    )
    .unwrap();
    assert_eq!(unknown, ["a", "registry.b", "registry.mirror.c"]);
}

#[test]
fn files_are_read_again_and_what_they_said_stays_while_they_are_broken() {
    let directory = tempfile::tempdir().unwrap();
    let main = directory.path().join("registries.conf");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let is_blocked = |routes: &Routes| {
        routes.current.lock().unwrap().look_again(&main);
        matches!(routes.route("a.io", "n", true), Route::Blocked { .. })
    };
    let routes = Routes::read(&main).unwrap();
    assert!(!is_blocked(&routes));
    write(
        "registries.conf.d/10-block.conf",
        "[[registry]]\nlocation = \"a.io\"\nblocked = true",
    );
    assert!(is_blocked(&routes));
    write("registries.conf", "[[registry]]\nlocation = \"a.io\"");
    assert!(is_blocked(&routes), "drop-ins come after the main file");
    write(
        "registries.conf.d/20-open.conf",
        "[[registry]]\nlocation = \"a.io\"",
    );
    assert!(!is_blocked(&routes), "in their order");
    write("registries.conf.d/30-note.txt", "nonsense");
    assert!(!is_blocked(&routes), "only files called .conf count");
    write("registries.conf.d/20-open.conf", "nonsense, and more of it");
    assert!(!is_blocked(&routes), "a broken file changes nothing");
    let error = Routes::read(&main).unwrap_err().to_string();
    assert!(
        error.contains("20-open.conf") && error.contains("line 1"),
        "{error}"
    );
    fs::remove_file(directory.path().join("registries.conf.d/20-open.conf")).unwrap();
    assert!(is_blocked(&routes));
}

proptest! {
    #[test]
    fn every_endpoint_can_be_asked(
        prefix in "(\\*\\.)?[a-c]{1,2}(\\.[a-c]{1,2}){0,2}(:5000)?(/[a-c]{1,2}){0,2}",
        location in "[a-c]{1,2}(\\.[a-c]{1,2}){1,2}(:5000)?(/[a-c]{1,2}){0,2}",
        host in "[a-c]{1,2}(\\.[a-c]{1,2}){1,3}(:5000)?",
        path in "[a-c]{1,2}(/[a-c]{1,2}){0,3}",
        by_tag: bool,
    ) {
        let text = format!("[[registry]]\nprefix = \"{prefix}\"\nlocation = \"{location}\"\n[[registry.mirror]]\nlocation = \"{location}\"");
        let mut table = Table::default();
        if let Ok((file, _)) = File::parse(&text) {
            table.extend(file);
        }
        let Route::Endpoints(endpoints) = table.route(&host, &path, by_tag) else { unreachable!("nothing is blocked") };
        prop_assert!(endpoints.iter().rev().skip(1).all(|endpoint| endpoint.mirror));
        prop_assert!(!endpoints.last().unwrap().mirror);
        for Endpoint { registry, repository, .. } in endpoints {
            let reference: Reference = format!("{registry}/{repository}:tag").parse().unwrap();
            prop_assert_eq!((reference.registry, reference.repository), (registry, repository));
        }
    }

    #[test]
    fn no_text_is_too_odd(text: String, name: String) {
        let mut table = Table::default();
        if let Ok((file, _)) = File::parse(&text) {
            table.extend(file);
        }
        let _ = table.written_out(&name);
        let _ = table.route(&name, &name, true);
    }
}
