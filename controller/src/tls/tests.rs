use std::{fs, os::unix::fs::symlink};

use tokio::sync::oneshot;

use super::{
    fixture::{Files, of},
    *,
};

#[tokio::test]
async fn what_can_not_be_used_is_named() {
    let (files, other) = (Files::new(), Files::new());
    let nothing = files.cert().with_file_name("nothing");
    let empty = files.cert().with_file_name("empty");
    fs::write(&empty, "").unwrap();
    for (cert, key, told) in [
        (&nothing, &files.key(), "cannot read"),
        (&files.cert(), &nothing, "cannot read"),
        (&empty, &files.key(), "holds no certificate"),
        (&files.cert(), &empty, "holds no private key"),
        (&files.key(), &files.key(), "holds no certificate"),
        (&files.cert(), &other.key(), "cannot be used"),
    ] {
        let error = ServerTls::load(cert, key, of("intermediate")).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn a_new_pair_is_used_and_a_bad_one_is_not() {
    let files = Files::new();
    let tls = files.load("intermediate").await;
    let first = tls.config().get_inner();
    assert!(!tls.look().await.unwrap(), "nothing changed");
    assert!(Arc::ptr_eq(&first, &tls.config().get_inner()));

    files.renew();
    assert!(tls.look().await.unwrap());
    let second = tls.config().get_inner();
    assert!(!Arc::ptr_eq(&first, &second));

    fs::write(files.key(), "nonsense").unwrap();
    assert!(matches!(tls.look().await, Err(TlsError::Pem { .. })));
    assert!(!tls.look().await.unwrap(), "what is bad is said once");
    fs::remove_file(files.key()).unwrap();
    assert!(matches!(tls.look().await, Err(TlsError::Read { .. })));
    assert!(Arc::ptr_eq(&second, &tls.config().get_inner()));

    files.renew();
    assert!(tls.look().await.unwrap(), "it goes on after a bad one");
}

#[tokio::test]
async fn files_are_followed_through_links_until_the_stop() {
    let (first, second, links) = (Files::new(), Files::new(), tempfile::tempdir().unwrap());
    // As a kubelet does it: one rename changes both files.
    let data = links.path().join("data");
    symlink(first.cert().parent().unwrap(), &data).unwrap();
    let tls = ServerTls::load(&data.join("tls.crt"), &data.join("tls.key"), of("modern"))
        .await
        .unwrap();
    let before = tls.config().get_inner();
    let (stop, stopped) = oneshot::channel::<()>();
    let following = tokio::spawn({
        let tls = tls.clone();
        async move {
            let stop = async { drop(stopped.await) };
            tls.follow_every(Duration::from_millis(1), stop).await;
        }
    });
    let next = links.path().join("next");
    symlink(second.cert().parent().unwrap(), &next).unwrap();
    fs::rename(&next, &data).unwrap();
    while Arc::ptr_eq(&before, &tls.config().get_inner()) {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    following.await.unwrap();
}
