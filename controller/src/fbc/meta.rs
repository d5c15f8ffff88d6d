//! What catalogd wants to know of a document.

use std::collections::BTreeMap;

use super::{
    Document, quoted,
    value::{self, Value},
};

/// A document of a value; none for null.
///
/// # Errors
/// The value is no object, has keys that differ in case only, or the keys that matter are no strings.
pub(super) fn document(value: &Value<'_>) -> Result<Option<Document>, String> {
    let object = match value {
        Value::Null => return Ok(None),
        Value::Object(object) => object,
        _ => return Err("a document must be an object".to_owned()),
    };
    let mut folded = BTreeMap::new();
    for key in object.keys() {
        if let Some(other) = folded.insert(fold(key), key) {
            let (one, other) = (quoted(other), quoted(key));
            return Err(format!("the keys {one} and {other} differ in case only"));
        }
    }
    let text = |name: &str| match folded.get(name).map(|key| (key, &object[*key])) {
        None => Ok(String::new()),
        Some((_, Value::String(text))) => Ok(text.clone().into_owned()),
        Some((key, _)) => Err(format!("the value of {} must be a string", quoted(key))),
    };
    let (schema, package, name) = (text("schema")?, text("package")?, text("name")?);
    match value::line(value) {
        Some(line) => Ok(Some(Document {
            line,
            schema,
            package,
            name,
        })),
        None => Err("the document has more than 64 MiB when its aliases are expanded".to_owned()),
    }
}

/// A key without its case. Upper case first: so those letters meet that have their upper case in common only.
fn fold(key: &str) -> String {
    if key.is_ascii() {
        return key.to_ascii_lowercase();
    }
    key.chars()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}
