//! Images as rows.

use std::time::SystemTime;

use puller_client::api;

use super::{escape, human};

const HEAD: [&str; 7] = [
    "ID",
    "REFERENCE",
    "PHASE",
    "PROGRESS",
    "ATTEMPT",
    "AGE",
    "MESSAGE",
];
/// Columns of rows that are printed one by one, before the widths of the later ones are known: an id,
/// most references, and the widest phase, progress, attempt and age.
const FIXED: [usize; 6] = [20, 40, 9, 18, 7, 4];
/// Between columns, as kubectl has it.
const GAP: &str = "   ";

type Row = [String; 7];

fn row(image: &api::Image, now: SystemTime) -> Row {
    let reference = match (&image.wish, image.normalized_reference.as_str()) {
        (Some(wish), "") => wish.reference.as_str(),
        (_, normalized) => normalized,
    };
    let age =
        human::time(image.created.as_ref()).map(|created| now.duration_since(created).unwrap_or_default());
    let next = human::next_attempt(image, now)
        .map(|wait| format!("next attempt in {wait}; "))
        .unwrap_or_default();
    [
        escape::line(&image.id),
        escape::line(reference),
        human::phase(image).to_owned(),
        human::progress(image),
        image.attempt.to_string(),
        age.map_or_else(|| "-".to_owned(), human::duration),
        escape::line(&format!("{next}{}", human::message(image))),
    ]
}

fn aligned(cells: &[String; 7], widths: &[usize; 6]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(cell);
        let missing = width.saturating_sub(cell.chars().count());
        line.extend(std::iter::repeat_n(' ', missing));
        line.push_str(GAP);
    }
    line.push_str(&cells[6]);
    line.trim_end().to_owned()
}

/// A table with its head, as wide as it must be.
pub(super) fn table<'a>(images: impl IntoIterator<Item = &'a api::Image>, now: SystemTime) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(images.into_iter().map(|image| row(image, now)));
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let lines: Vec<_> = rows.iter().map(|row| aligned(row, &widths)).collect();
    lines.join("\n")
}

/// The head of rows that are printed one by one.
pub(super) fn head() -> String {
    aligned(&HEAD.map(str::to_owned), &FIXED)
}

/// One of them.
pub(super) fn line(image: &api::Image, now: SystemTime) -> String {
    aligned(&row(image, now), &FIXED)
}

/// One of an Image that is gone.
pub(super) fn gone(id: &str) -> String {
    let [id, reference, phase, ..] = [escape::line(id), "-".to_owned(), "Deleted".to_owned()];
    let dash = || "-".to_owned();
    aligned(
        &[id, reference, phase, dash(), dash(), dash(), String::new()],
        &FIXED,
    )
}
