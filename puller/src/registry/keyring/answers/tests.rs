use std::cell::Cell;

use super::*;
use crate::registry::keyring::{Credential, key::Key};

fn asked<'a>(registry: &'a str, repository: &'a str) -> Asked<'a> {
    Asked {
        registry,
        repository,
        version: 0,
    }
}

fn answer(n: u32, cover: Cover, life: Duration) -> Result<Answer, String> {
    let login = Credential::of_login(n.to_string(), "p".into());
    Ok(Answer {
        config: Config::of([(Key::parse("x.io"), login)]),
        cover,
        life,
    })
}

/// A program that counts how often it is asked.
struct Program {
    answers: Answers,
    asked: Cell<u32>,
    cover: Cover,
    life: Duration,
}

impl Program {
    fn new(cover: Cover, life: Duration) -> Self {
        Self {
            answers: Answers::default(),
            asked: Cell::new(0),
            cover,
            life,
        }
    }

    async fn get(&self, asked: Asked<'_>) -> Given {
        let ask = async || {
            self.asked.set(self.asked.get() + 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
            answer(self.asked.get(), self.cover, self.life)
        };
        self.answers.get("test", asked, ask).await
    }

    /// How often it was asked for these.
    async fn asked_for(&self, images: &[(&str, &str)]) -> u32 {
        let before = self.asked.get();
        for (registry, repository) in images {
            self.get(asked(registry, repository)).await.unwrap();
        }
        self.asked.get() - before
    }
}

const IMAGES: [(&str, &str); 4] = [("x.io", "a"), ("x.io", "b"), ("x.io", "a"), ("y.io", "a")];

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_what_it_covers_and_for_its_life() {
    for (cover, first, asked) in [
        (Cover::Image, 3, 3),
        (Cover::Registry, 2, 2),
        (Cover::Everything, 1, 1),
    ] {
        let program = Program::new(cover, Duration::from_secs(60));
        assert_eq!(program.asked_for(&IMAGES).await, first, "{cover:?}");
        tokio::time::advance(Duration::from_secs(50)).await;
        assert_eq!(program.asked_for(&IMAGES).await, 0, "{cover:?}");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(program.asked_for(&IMAGES).await, asked, "{cover:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_to_be_kept_serves_one_attempt() {
    let program = Program::new(Cover::Everything, Duration::ZERO);
    assert_eq!(program.asked_for(&IMAGES).await, 1);
    tokio::time::advance(KEPT_AT_LEAST).await;
    assert_eq!(program.asked_for(&IMAGES).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_an_answer_unless_it_is_fresh() {
    for cover in [Cover::Image, Cover::Registry, Cover::Everything] {
        let program = Program::new(cover, Duration::from_secs(3600));
        assert_eq!(program.asked_for(&[("x.io", "a")]).await, 1);
        program.answers.refused("x.io", "a");
        assert_eq!(program.asked_for(&[("x.io", "a")]).await, 0);
        tokio::time::advance(KEPT_AT_LEAST).await;
        if cover != Cover::Everything {
            program.answers.refused("y.io", "a");
        }
        assert_eq!(program.asked_for(&[("x.io", "a")]).await, 0, "{cover:?}");
        program.answers.refused("x.io", "a");
        assert_eq!(program.asked_for(&[("x.io", "a")]).await, 1, "{cover:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_costs_its_wait_once() {
    let answers = Answers::default();
    let runs = Cell::new(0);
    let hang = async || {
        runs.set(runs.get() + 1);
        tokio::time::sleep(Duration::from_secs(10)).await;
        Err("did not end".to_owned())
    };
    let begun = Instant::now();
    let all = (0..20).map(|_| answers.get("test", asked("x.io", "a"), hang));
    for given in futures_util::future::join_all(all).await {
        assert_eq!(given, Err("did not end".to_owned()));
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    let later = answers.get("test", asked("x.io", "b"), hang).await;
    assert!(later.is_err());
    assert_eq!((runs.get(), begun.elapsed().as_secs()), (1, 70));

    answers.refused("x.io", "b");
    assert!(answers.get("test", asked("x.io", "b"), hang).await.is_err());
    assert_eq!(runs.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn many_at_a_time_ask_once() {
    let program = Program::new(Cover::Registry, Duration::from_secs(60));
    let all = (0..20).map(|_| program.get(asked("x.io", "a")));
    for given in futures_util::future::join_all(all).await {
        assert!(given.is_ok());
    }
    assert_eq!(program.asked.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_ends_all_answers() {
    let program = Program::new(Cover::Everything, Duration::from_secs(3600));
    let now = asked("x.io", "a");
    let changed = Asked { version: 1, ..now };
    program.get(now).await.unwrap();
    program.get(changed).await.unwrap();
    assert_eq!(program.asked.get(), 2);
    // What is answered to somebody who has not seen the change is for nobody else.
    program.answers.kept().answers.clear();
    program.get(now).await.unwrap();
    program.get(changed).await.unwrap();
    assert_eq!(program.asked.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_go_first_when_there_are_too_many() {
    let program = Program::new(Cover::Image, Duration::from_secs(3600));
    for n in 0..=MOST_ANSWERS {
        program.get(asked(&format!("{n}.io"), "a")).await.unwrap();
    }
    assert_eq!(program.answers.kept().answers.len(), MOST_ANSWERS);
    assert!(program.answers.flights.lock().unwrap().len() <= MOST_ANSWERS);
    let last = format!("{MOST_ANSWERS}.io");
    assert_eq!(program.asked_for(&[("1.io", "a"), (&last, "a")]).await, 0);
    assert_eq!(program.asked_for(&[("0.io", "a")]).await, 1);
}
