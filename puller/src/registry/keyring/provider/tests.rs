use super::{super::config::candidates, *};
use crate::{
    domain::{Scope, Secret},
    registry::{
        Keyring,
        keyring::{
            Config, Credential, CredentialProviders,
            tests::{executable, login},
        },
    },
};

const CONFIG: &str = r#"
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: ecr-credential-provider
    matchImages:
      - "*.dkr.ecr.*.amazonaws.com"
      - "x.io:5000/team"
    defaultCacheDuration: "12h0m0s"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args: [get-credentials, --v=3]
    env:
      - {name: AWS_PROFILE, value: pulls}
"#;

const JSON: &str = "{\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n\t\"kind\": \"CredentialProviderConfig\",
\t\"providers\": [{\"name\": \"ecr-credential-provider\", \"matchImages\": [\"*.dkr.ecr.*.amazonaws.com\",
\t\"x.io:5000/team\"], \"defaultCacheDuration\": \"720m\", \"apiVersion\": \"credentialprovider.kubelet.k8s.io/v1\",
\t\"args\": [\"get-credentials\", \"--v=3\"], \"env\": [{\"name\": \"AWS_PROFILE\", \"value\": \"pulls\"}]}]}";

#[test]
fn yaml_and_json_say_the_same() {
    let (yaml, ignored) = config::parse(CONFIG.as_bytes()).unwrap();
    assert!(ignored.is_empty());
    assert_eq!(config::parse(JSON.as_bytes()), Ok((yaml.clone(), vec![])));
    let [provider] = yaml.as_slice() else {
        panic!("{yaml:?}")
    };
    assert_eq!(provider.default_life, Duration::from_secs(12 * 3600));
    assert_eq!(provider.arguments, ["get-credentials", "--v=3"]);
    assert_eq!(provider.environment, [("AWS_PROFILE".into(), "pulls".into())]);
}

#[test]
fn images_match_as_in_the_kubelet() {
    let (providers, _) = config::parse(CONFIG.as_bytes()).unwrap();
    for (registry, repository, asked) in [
        ("1.dkr.ecr.eu-west-1.amazonaws.com", "app", true),
        ("1.dkr.ecr.amazonaws.com", "app", false),
        ("dkr.ecr.eu-west-1.amazonaws.com", "app", false),
        ("1.dkr.ecr.eu-west-1.amazonaws.com:443", "app", false),
        ("x.io:5000", "team", true),
        ("x.io:5000", "team/app", true),
        // The kubelet compares paths as texts.
        ("x.io:5000", "team-a/app", true),
        ("x.io:5000", "other/team", false),
        ("x.io", "team/app", false),
    ] {
        assert_eq!(
            providers[0].is_for(registry, repository),
            asked,
            "{registry}/{repository}"
        );
    }
    let hub = CONFIG.replace("x.io:5000/team", "docker.io/library/");
    let (providers, _) = config::parse(hub.as_bytes()).unwrap();
    assert!(providers[0].is_for("docker.io", "library/nginx"));
    assert!(!providers[0].is_for("docker.io", "library-of-mine/nginx"));
}

#[test]
fn what_the_kubelet_refuses_is_refused() {
    for (right, wrong, told) in [
        ("kind: CredentialProviderConfig", "kind: Pod", "its kind is Pod"),
        (
            "kubelet.config.k8s.io/v1\n",
            "kubelet.config.k8s.io/v2\n",
            "its apiVersion is",
        ),
        (
            "credentialprovider.kubelet.k8s.io/v1",
            "v1",
            "one of credentialprovider.kubelet.k8s.io/v1",
        ),
        ("name: ecr-credential-provider", "name: ../ecr", "no plain name"),
        ("name: ecr-credential-provider", "name: '..'", "no plain name"),
        ("name: ecr-credential-provider", "name: '.'", "no plain name"),
        ("name: ecr-credential-provider", "name: ''", "no plain name"),
        ("name: ecr-credential-provider", "name: 'a b'", "no plain name"),
        ("\"12h0m0s\"", "\"-1s\"", "a duration such as"),
        ("\"12h0m0s\"", "\"soon\"", "a duration such as"),
        (
            "    defaultCacheDuration: \"12h0m0s\"\n",
            "",
            "no defaultCacheDuration",
        ),
        ("x.io:5000/team", "https://x.io", "a scheme"),
        ("x.io:5000/team", "x.io:*", "port is no number"),
        ("x.io:5000/team", "/team", "no host"),
        ("x.io:5000/team", "x .io", "spaces"),
        ("name: AWS_PROFILE", "name: A=B", "env has a name"),
        ("args:", "arguments:", "arguments"),
    ] {
        assert!(CONFIG.contains(right), "{right}");
        let error = config::parse(CONFIG.replace(right, wrong).as_bytes()).unwrap_err();
        assert!(error.contains(told), "{wrong}: {error}");
    }
    let (head, provider) = CONFIG.split_once("providers:").unwrap();
    let twice = format!("{head}providers:{provider}{}", provider.trim_start_matches('\n'));
    for (config, told) in [
        (format!("{head}providers: []"), "no providers"),
        (twice, "two providers are named"),
        ("{".into(), "EOF"),
        ("a: [".into(), ""),
        (String::new(), ""),
    ] {
        let error = config::parse(config.as_bytes()).unwrap_err();
        assert!(error.contains(told), "{config}: {error}");
    }
    assert!(config::parse(b"\xff").unwrap_err().contains("UTF-8"));
}

#[test]
fn one_that_wants_a_service_accounts_token_is_skipped() {
    let attributes =
        "tokenAttributes: {serviceAccountTokenAudience: x, requireServiceAccount: true, cacheType: Token}";
    let config = CONFIG.replace("    args:", &format!("    {attributes}\n    args:"));
    let (providers, ignored) = config::parse(config.as_bytes()).unwrap();
    assert_eq!(providers, []);
    assert!(ignored[0].contains("service account"), "{ignored:?}");
}

const API: &str = "credentialprovider.kubelet.k8s.io/v1";

fn answer(rest: &str) -> String {
    format!(r#"{{"kind":"CredentialProviderResponse","apiVersion":"{API}",{rest}}}"#)
}

#[test]
fn answers_are_understood() {
    let text = answer(
        r#""cacheKeyType":"Registry","cacheDuration":"6h0m0s","auth":{
            "*.x.io": {"username":"wide","password":"p"},
            "a.x.io": {"username":"host","password":"p"},
            "a.x.io/team": {"username":"team","password":"p"},
            "https://b.x.io": {"username":"<token>","password":"t"},
            "a.x.io/team/app": {"username":"","password":""}}"#,
    );
    let response = response::parse(text.as_bytes(), API).unwrap();
    assert_eq!(response.life, Some(Duration::from_secs(6 * 3600)));
    let config = [std::sync::Arc::new(response.config)];
    assert_eq!(
        candidates(&config, "a.x.io", "team-a/app"),
        [login("team", "p"), login("host", "p"), login("wide", "p")]
    );
    assert_eq!(
        candidates(&config, "b.x.io", "app")[0],
        Credential::Identity(Secret::new("t".into()))
    );
    for rest in [
        r#""cacheKeyType":"Global""#,
        r#""cacheKeyType":"Image","auth":null,"more":1"#,
    ] {
        let response = response::parse(answer(rest).as_bytes(), API).unwrap();
        assert_eq!((response.config, response.life), (Config::default(), None));
    }
    let expired = answer(r#""cacheKeyType":"Image","cacheDuration":"-5m""#);
    let expired = response::parse(expired.as_bytes(), API).unwrap();
    assert_eq!(expired.life, Some(Duration::ZERO));
}

#[test]
fn a_wrong_answer_is_told_without_its_values() {
    for (text, told) in [
        ("hunter2".to_owned(), "no JSON"),
        (answer(r#""cacheKeyType":"Image","auth":"hunter2""#), "no JSON"),
        (
            answer(r#""cacheKeyType":"Image","auth":{"x":"hunter2"}"#),
            "no JSON",
        ),
        (answer(r#""cacheKeyType":"Pod""#), "cacheKeyType \"Pod\""),
        (answer(r#""auth":{}"#), "cacheKeyType \"\""),
        (
            answer(r#""cacheKeyType":"Image","cacheDuration":"long""#),
            "cacheDuration",
        ),
        (
            answer(r#""cacheKeyType":"Image""#).replace("/v1", "/v1beta1"),
            "its config has",
        ),
        (
            answer(r#""cacheKeyType":"Image""#).replace("Response", "Request"),
            "kind",
        ),
    ] {
        let error = response::parse(text.as_bytes(), API).unwrap_err();
        assert!(error.contains(told), "{text}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

/// A directory with a config and a provider named `test` that is this script.
struct Plugin(tempfile::TempDir);

impl Plugin {
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        executable(&directory.path().join("test"), script);
        let plugin = Self(directory);
        plugin.configure("a.io");
        plugin
    }

    fn configure(&self, image: &str) {
        let config = CONFIG
            .replace("ecr-credential-provider", "test")
            .replace("x.io:5000/team", image);
        std::fs::write(self.config(), config).unwrap();
    }

    fn config(&self) -> std::path::PathBuf {
        self.0.path().join("config.yaml")
    }

    fn read(&self) -> Result<CredentialProviders, InvalidProviders> {
        CredentialProviders::read(&self.config(), self.0.path())
    }

    /// Asks; another test's fork may hold the fresh script open for writing, which ends soon.
    async fn ask(&self, limit: Duration) -> Result<Answer, String> {
        let config = std::fs::read(self.config()).unwrap();
        let (mut providers, _) = Providers::parse(&config, self.0.path()).unwrap();
        providers.time_limit = limit;
        let provider = providers.matching("a.io", "team/app").next().unwrap();
        loop {
            match providers.ask(provider, "a.io", "team/app").await {
                Err(problem) if problem.contains("Text file busy") => tokio::task::yield_now().await,
                answer => return answer,
            }
        }
    }

    fn said(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join(file)).unwrap_or_default()
    }
}

/// A script that answers a login of this user for `a.io`, and leaves a line in `runs`.
fn answering(user: &str) -> String {
    let auth =
        format!(r#""cacheKeyType":"Registry","auth":{{"a.io":{{"username":"{user}","password":"p"}}}}"#);
    format!(
        "echo run >> \"$(dirname \"$0\")/runs\"\ncat > /dev/null\necho '{}'",
        answer(&auth)
    )
}

#[tokio::test]
async fn a_program_gets_the_image_its_arguments_and_the_environment() {
    let script = r#"cd "$(dirname "$0")"; cat > request; echo "$@" > arguments; echo "$AWS_PROFILE $PATH" > environment"#;
    let plugin = Plugin::new(&format!("{script}\n{}", answering("u")));
    let Answer { config, life, .. } = plugin.ask(TIME_LIMIT).await.unwrap();
    assert_eq!(candidates(&[config.into()], "a.io", "x"), [login("u", "p")]);
    assert_eq!(life, Duration::from_secs(12 * 3600), "the config's default");
    let request: serde_json::Value = serde_json::from_str(&plugin.said("request")).unwrap();
    assert_eq!(
        request,
        serde_json::json!({"kind": "CredentialProviderRequest", "apiVersion": API, "image": "a.io/team/app"})
    );
    assert_eq!(plugin.said("arguments"), "get-credentials --v=3\n");
    let path = std::env::var("PATH").unwrap();
    assert_eq!(plugin.said("environment"), format!("pulls {path}\n"));
}

#[tokio::test]
async fn failures_are_told() {
    for (script, told) in [
        ("sleep 600", "did not end within 0.5 s"),
        ("echo '{\"password\":\"hunter2\"'", "answered no JSON"),
        (
            "echo no metadata server >&2; exit 1",
            "failed: no metadata server",
        ),
    ] {
        let problem = Plugin::new(script)
            .ask(Duration::from_millis(500))
            .await
            .unwrap_err();
        assert!(problem.contains(told), "{problem}");
        assert!(problem.contains("credential provider test"), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[test]
fn an_unusable_config_or_a_missing_program_fails_the_start() {
    let plugin = Plugin::new("true");
    assert!(plugin.read().is_ok());
    std::fs::write(plugin.0.path().join("test"), "").unwrap();
    std::fs::set_permissions(
        plugin.0.path().join("test"),
        std::fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let told = |plugin: &Plugin| plugin.read().unwrap_err().to_string();
    assert!(
        told(&plugin).contains("no file that may be executed"),
        "{}",
        told(&plugin)
    );
    std::fs::remove_file(plugin.0.path().join("test")).unwrap();
    assert!(told(&plugin).contains("No such file"), "{}", told(&plugin));
    std::fs::write(plugin.config(), "kind: Pod").unwrap();
    assert!(told(&plugin).contains("config.yaml"), "{}", told(&plugin));
    let nowhere = CredentialProviders::read(Path::new("/nowhere"), Path::new("/bin"));
    assert!(nowhere.unwrap_err().to_string().contains("it can't be read"));
}

async fn users(keyring: &Keyring, scope: &Scope, repository: &str) -> Vec<String> {
    let found = keyring.lookup(scope, "a.io", repository).await.unwrap();
    let name = |credential: &Credential| match credential {
        Credential::Login { username, .. } => username.clone(),
        other => panic!("{other:?}"),
    };
    found.credentials.iter().map(name).collect()
}

fn docker_config(directory: &Path, keys: &[&str]) -> std::path::PathBuf {
    let entry = |key: &&str| {
        (
            (*key).to_owned(),
            serde_json::json!({"username": key, "password": "p"}),
        )
    };
    let auths: serde_json::Map<_, _> = keys.iter().map(entry).collect();
    let path = directory.join("config.json");
    std::fs::write(&path, serde_json::json!({ "auths": auths }).to_string()).unwrap();
    path
}

#[tokio::test]
async fn what_it_gives_ranks_with_what_files_have_by_place() {
    let plugin = Plugin::new(&answering("plugin"));
    plugin.ask(TIME_LIMIT).await.unwrap();
    let file = docker_config(plugin.0.path(), &["a.io/team", "a.io", "*.io"]);
    let keyring = Keyring::with_providers([file], Some(plugin.read().unwrap()));
    let daemon = Scope::default();
    assert_eq!(
        users(&keyring, &daemon, "team/app").await,
        ["a.io/team", "a.io", "plugin", "*.io"]
    );
    // Those that came by Fetch run nothing.
    let team = Scope("team".into());
    keyring.set(&team, b"{}").unwrap();
    assert_eq!(users(&keyring, &team, "team/app").await, [""; 0]);
}

#[tokio::test]
async fn a_config_that_changes_counts_and_one_that_is_broken_does_not() {
    let plugin = Plugin::new(&answering("plugin"));
    plugin.ask(TIME_LIMIT).await.unwrap();
    let keyring = Keyring::with_providers([], Some(plugin.read().unwrap()));
    let daemon = Scope::default();
    assert_eq!(users(&keyring, &daemon, "app").await, ["plugin"]);
    assert_eq!(users(&keyring, &daemon, "other").await, ["plugin"]);
    assert_eq!(plugin.said("runs"), "run\nrun\n", "one was not by the keyring");

    std::fs::write(plugin.config(), "kind: Pod").unwrap();
    assert_eq!(users(&keyring, &daemon, "app").await, ["plugin"]);
    plugin.configure("b.io");
    assert_eq!(users(&keyring, &daemon, "app").await, [""; 0]);
    std::fs::remove_file(plugin.config()).unwrap();
    plugin.configure("a.io/app");
    assert_eq!(users(&keyring, &daemon, "app").await, ["plugin"]);
    assert_eq!(users(&keyring, &daemon, "other").await, [""; 0]);
    let changed =
        tokio::task::spawn_blocking(move || (keyring.files_have_changed(), keyring.files_have_changed()));
    assert_eq!(changed.await.unwrap(), (true, false));
}
