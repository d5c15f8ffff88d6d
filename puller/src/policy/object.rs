//! JSON objects, strictly: no key twice, none that nobody knows, and no array where an object belongs. A
//! policy that is understood only half is one that accepts what its author wanted refused.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::registry::quoted;

/// An object with any keys, each of them once.
#[derive(Debug)]
pub(super) struct Unique<V>(pub(super) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Unique<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Keys<V> {
            type Value = Unique<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique<V>, A::Error> {
                let mut values = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if values.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("{key:?} stands there twice")));
                    }
                    values.insert(key, map.next_value()?);
                }
                Ok(Unique(values))
            }
        }
        deserializer.deserialize_map(Keys(PhantomData))
    }
}

/// Reads an object. Structs would be read from arrays too. The error is fit to print.
pub(super) fn object<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    if !json.trim_start().starts_with('{') {
        return Err("it is no JSON object".to_owned());
    }
    serde_json::from_str(json).map_err(|error| quoted(&error.to_string()))
}

/// The `type` of an object.
pub(super) fn kind(json: &RawValue) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Typed {
        r#type: String,
    }
    object::<Typed>(json.get()).map(|typed| typed.r#type)
}

/// An object that holds its `type` and nothing more.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnlyType {
    #[serde(rename = "type")]
    _type: IgnoredAny,
}

/// A value that may be left out, but is none if it is `null`.
pub(super) fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_an_error() {
        let error = object::<Unique<u8>>(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap_err();
        assert!(error.contains(r#""a" stands there twice"#), "{error}");
        assert_eq!(object::<Unique<u8>>(r#" {"a": 1}"#).unwrap().0["a"], 1);
    }

    #[test]
    fn an_array_is_no_object() {
        #[derive(Debug, Deserialize)]
        struct One {
            #[serde(rename = "one")]
            _one: u8,
        }
        assert!(object::<One>("[1]").is_err());
        assert!(object::<One>(r#"{"one": 1}"#).is_ok());
    }
}
