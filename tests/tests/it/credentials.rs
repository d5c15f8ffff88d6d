//! Credentials: a wrong password is seen at once, a right one is used at once.

use std::time::{Duration, SystemTime};

use puller_tests::{
    image::{Image, Layer},
    puller::{Phase, Puller, Reason},
    scripted::{Any, Auth, ScriptedRegistry},
};
use tokio::time::Instant;

fn image() -> Image {
    Image::new().layer(Layer::gzip().file("secret", "sauce"))
}

/// S01 and S02.
#[tokio::test]
async fn a_wrong_password_is_seen_within_a_second_and_a_right_one_ends_the_back_off() {
    for auth in [Auth::basic("user", "right"), Auth::bearer("user", "right")] {
        let registry = ScriptedRegistry::start().auth(auth).await;
        let reference = registry.hold("team/app:v1", image());
        let puller = Puller::start().await;
        let fetch = |password| {
            puller
                .fetch(&reference)
                .scope("team")
                .login(&registry.host(), "user", password)
        };

        let fetched = fetch("wrong").await;
        let retrying = puller.retrying(&fetched.id).await;
        let seen = Instant::now();
        let error = retrying.last_error.as_ref().expect("an error");
        assert_eq!(error.reason(), Reason::Unauthorized, "{error:?}");
        assert!(
            !error.message.contains("wrong"),
            "the password is in {:?}",
            error.message
        );
        let first_answer = registry.requests()[0].time;
        assert!(
            seen - first_answer < Duration::from_secs(1),
            "it took {:?}",
            seen - first_answer
        );

        // Later back-offs are long enough to tell whether one was waited for.
        let waiting = puller.wait_for(&fetched.id, "a back-off of seconds", |image| {
            next_retry(image).is_some_and(|next| next > SystemTime::now() + Duration::from_secs(4))
        });
        let next_retry = next_retry(&waiting.await).expect("it was waited for");
        let again = fetch("right").await;
        assert_eq!(
            again.id, fetched.id,
            "new values under the same scope are the same Image"
        );
        puller.unpacked(&fetched.id).await;
        assert!(SystemTime::now() < next_retry, "the back-off was waited for");
    }
}

pub(crate) fn next_retry(image: &puller_tests::puller::Image) -> Option<SystemTime> {
    SystemTime::try_from(image.next_retry?).ok()
}

#[tokio::test]
async fn one_token_serves_all_requests_of_a_pull() {
    let registry = ScriptedRegistry::start()
        .auth(Auth::bearer("user", "right"))
        .await;
    let image = (0..6).fold(Image::new(), |image, n| {
        image.layer(Layer::gzip().file(&format!("{n}"), "x"))
    });
    let reference = registry.hold("team/app:v1", &image);
    let puller = Puller::start().await;
    let fetched = puller
        .fetch(&reference)
        .login(&registry.host(), "user", "right")
        .await;
    puller.unpacked(&fetched.id).await;
    assert_eq!(registry.count(Any::token()), 1);
}

#[tokio::test]
async fn a_token_that_ends_in_the_middle_is_replaced_and_nothing_fails() {
    let registry = ScriptedRegistry::start()
        .auth(Auth::bearer("user", "right"))
        .await;
    let reference = registry.hold("team/app:v1", image());
    let puller = Puller::start().await;
    let fetched = puller
        .fetch(&reference)
        .login(&registry.host(), "user", "right")
        .await;
    puller.unpacked(&fetched.id).await;

    registry.revoke_tokens();
    let other = registry.hold("team/app:v2", Image::new().layer(Layer::gzip().file("a", "b")));
    let fetched = puller
        .fetch(&other)
        .login(&registry.host(), "user", "right")
        .await;
    let unpacked = puller.unpacked(&fetched.id).await;
    assert_eq!(unpacked.attempt, 1, "{unpacked:#?}");
}

#[tokio::test]
async fn another_scope_is_another_image_and_its_password_is_not_borrowed() {
    let registry = ScriptedRegistry::start().auth(Auth::basic("user", "right")).await;
    let reference = registry.hold("team/app:v1", image());
    let puller = Puller::start().await;
    let mine = puller
        .fetch(&reference)
        .scope("mine")
        .login(&registry.host(), "user", "right")
        .await;
    puller.unpacked(&mine.id).await;

    registry.forget_requests();

    let theirs = puller
        .fetch(&reference)
        .scope("theirs")
        .login(&registry.host(), "user", "wrong")
        .await;
    assert_ne!(theirs.id, mine.id);
    let retrying = puller.retrying(&theirs.id).await;
    assert_eq!(
        retrying.last_error.expect("an error").reason(),
        Reason::Unauthorized
    );
    let admitted = registry
        .requests()
        .into_iter()
        .filter(|request| request.status == Some(200));
    assert_eq!(admitted.count(), 0, "the other scope's password was used");
    assert_eq!(puller.get(&mine.id).await.phase(), Phase::Unpacked);
}
