//! Taking a URL apart.

use percent_encoding::percent_decode_str;

use super::{Host, LockUrl};
use crate::{Error, Result};

pub(super) fn parse(text: &str) -> Result<LockUrl> {
    let (scheme, rest) = text.split_once(':').ok_or_else(|| {
        Error::config("a backend URL begins with its scheme: redis:// postgres:// etcd:// zk:// file: memory:")
    })?;
    if scheme.is_empty() || !scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')) {
        return Err(Error::config(
            "the scheme of a backend URL is a word such as redis, postgres, etcd, zk, file or memory",
        ));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if rest.contains('#') || query.contains('#') {
        return Err(Error::config("a backend URL has no fragment: write '#' as %23"));
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
        None => ("", rest),
    };
    let (user, password, hosts) = split_authority(authority)?;
    Ok(LockUrl {
        scheme: scheme.to_ascii_lowercase(),
        user,
        password,
        hosts,
        path: decode(path, "path")?,
        query: split_query(query)?,
    })
}

type Authority = (Option<String>, Option<String>, Vec<Host>);

fn split_authority(authority: &str) -> Result<Authority> {
    let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    let (user, password) = match user.map(|u| u.split_once(':').map_or((u, None), |(u, p)| (u, Some(p)))) {
        None => (None, None),
        Some((user, password)) => {
            let user = decode(user, "user")?;
            let password = password.map(|p| decode(p, "password")).transpose()?;
            (Some(user).filter(|u| !u.is_empty()), password)
        }
    };
    if hosts.is_empty() {
        return Ok((user, password, Vec::new()));
    }
    let hosts = hosts.split(',').map(parse_host).collect::<Result<Vec<_>>>()?;
    Ok((user, password, hosts))
}

fn parse_host(text: &str) -> Result<Host> {
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (name, rest) = rest
            .split_once(']')
            .ok_or_else(|| Error::config(format!("host {text:?}: an IPv6 address ends with a bracket: [::1]:6379")))?;
        match rest.strip_prefix(':') {
            Some(port) => (name, Some(port)),
            None if rest.is_empty() => (name, None),
            None => return Err(Error::config(format!("host {text:?}: after the bracket comes :port or nothing"))),
        }
    } else {
        text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)))
    };
    if name.is_empty() {
        return Err(Error::config(format!("host {text:?} has no name; a list is written h1,h2:port,h3")));
    }
    let port = match port {
        None => None,
        Some(port) => Some(
            port.parse::<u16>()
                .ok()
                .filter(|p| *p != 0)
                .ok_or_else(|| Error::config(format!("host {name:?}: {port:?} is no port (1 to 65535)")))?,
        ),
    };
    Ok(Host { name: decode(name, "host")?, port })
}

fn split_query(query: &str) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Error::config(format!("the key {pair:?} of the URL has no value: write {pair}=…")))?;
        pairs.push((decode(key, "key")?, decode(value, key)?));
    }
    Ok(pairs)
}

/// The message names the place and never the text: it may be a secret.
fn decode(text: &str, place: &str) -> Result<String> {
    percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| Error::config(format!("the {place} of the URL is no UTF-8 after percent-decoding")))
}
