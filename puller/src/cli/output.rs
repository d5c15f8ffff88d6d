//! Messages by the proto3 JSON mapping, as grpcurl prints them, and as YAML of the same shape.

use std::{io, io::Write as _, sync::LazyLock};

use prost_reflect::{DescriptorPool, DynamicMessage};
use puller_client::api;

use super::escape;

/// How a result is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// The proto3 JSON mapping, as grpcurl prints it: sizes are texts, enums are names.
    Json,
    /// The same as YAML.
    Yaml,
}

/// A message that can be printed; its name in the proto file.
pub(super) trait Printed: prost::Message {
    const NAME: &'static str;
}

impl Printed for api::Image {
    const NAME: &'static str = "puller.v1.Image";
}

impl Printed for api::ListResponse {
    const NAME: &'static str = "puller.v1.ListResponse";
}

impl Printed for api::WatchEvent {
    const NAME: &'static str = "puller.v1.WatchEvent";
}

static DESCRIPTORS: LazyLock<Result<DescriptorPool, prost_reflect::DescriptorError>> =
    LazyLock::new(|| DescriptorPool::decode(puller_api::FILE_DESCRIPTOR_SET));

/// The message in a form that serializes by the mapping.
fn dynamic<M: Printed>(message: &M) -> io::Result<DynamicMessage> {
    let pool = DESCRIPTORS.as_ref().map_err(io::Error::other)?;
    let descriptor = pool
        .get_message_by_name(M::NAME)
        .ok_or_else(|| io::Error::other(format!("{} is not in the descriptor set", M::NAME)))?;
    DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).map_err(io::Error::other)
}

/// JSON over several lines.
pub(super) fn json<M: Printed>(message: &M) -> io::Result<String> {
    Ok(escape::json(&serde_json::to_string_pretty(&dynamic(message)?)?))
}

/// JSON in one line.
pub(super) fn json_line<M: Printed>(message: &M) -> io::Result<String> {
    Ok(escape::json(&serde_json::to_string(&dynamic(message)?)?))
}

/// YAML, without a line feed at its end. Its writer escapes controls, but neither bidirectional
/// overrides nor characters without width: a document that holds some is written in YAML's flow style,
/// which is JSON, where they can be escaped.
pub(super) fn yaml<M: Printed>(message: &M) -> io::Result<String> {
    let text = serde_saphyr::to_string(&dynamic(message)?).map_err(io::Error::other)?;
    match escape::is_safe_layout(&text) {
        true => Ok(text.trim_end().to_owned()),
        false => json(message),
    }
}

/// Writes text and a line feed to stdout, now.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
