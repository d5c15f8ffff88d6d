use super::*;

fn guard(allow: AllowPrivate, proxies: &[&str]) -> Guard {
    Guard {
        allow,
        proxies: proxies.iter().map(|&host| host.to_owned()).collect(),
        reaches: Mutex::default(),
    }
}

fn sockets(addresses: &[&str]) -> Vec<SocketAddr> {
    let port = |address: &&str| SocketAddr::new(address.parse().unwrap(), 0);
    addresses.iter().map(port).collect()
}

#[test]
fn knows_each_kind_of_address() {
    for (address, place) in [
        ("8.8.8.8", Place::Public),
        ("172.15.255.255", Place::Public),
        ("172.32.0.1", Place::Public),
        ("100.63.0.1", Place::Public),
        ("100.128.0.1", Place::Public),
        ("2606:4700::1111", Place::Public),
        ("::ffff:8.8.8.8", Place::Public),
        ("0.0.0.0", Place::Inside),
        ("127.0.0.1", Place::Inside),
        ("127.255.0.1", Place::Inside),
        ("10.1.2.3", Place::Inside),
        ("172.16.0.1", Place::Inside),
        ("172.31.255.255", Place::Inside),
        ("192.168.0.1", Place::Inside),
        ("100.64.0.1", Place::Inside),
        ("240.0.0.1", Place::Inside),
        ("::", Place::Inside),
        ("::1", Place::Inside),
        ("fd00::1", Place::Inside),
        ("fec0::1", Place::Inside),
        ("::ffff:127.0.0.1", Place::Inside),
        ("::127.0.0.1", Place::Inside),
        ("64:ff9b::10.0.0.1", Place::Inside),
        ("64:ff9b:1::1", Place::Inside),
        ("2002:0a00:0001::1", Place::Inside),
        ("169.254.0.1", Place::Never),
        ("169.254.169.254", Place::Never),
        ("100.100.100.200", Place::Never),
        ("224.0.0.1", Place::Never),
        ("255.255.255.255", Place::Never),
        ("fe80::1", Place::Never),
        ("febf::1", Place::Never),
        ("ff02::1", Place::Never),
        ("fd00:ec2::254", Place::Never),
        ("::ffff:169.254.169.254", Place::Never),
        ("64:ff9b::169.254.169.254", Place::Never),
        ("2002:a9fe:a9fe::1", Place::Never),
    ] {
        assert_eq!(Place::of(address.parse().unwrap()), place, "{address}");
    }
}

#[test]
fn a_url_cannot_name_what_may_not_be_dialled() {
    let guard = guard(AllowPrivate::Hosts(vec!["10.0.0.7".into()]), &["proxy.corp"]);
    let check = |url: &str, reach| guard.check(&url.parse().unwrap(), reach);
    for url in [
        "https://127.0.0.1/",
        // Spellings that resolvers take for 127.0.0.1.
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::ffff:10.0.0.1]/",
        "https://192.168.1.1/",
        "https://proxy.corp:3128/",
    ] {
        assert!(check(url, Reach::Public).is_err(), "{url}");
        assert!(check(url, Reach::Inside).is_ok(), "{url}");
    }
    for reach in [Reach::Public, Reach::Inside] {
        assert!(check("https://169.254.169.254/latest/meta-data", reach).is_err());
        assert!(check("https://[fe80::1]/", reach).is_err());
        assert!(check("https://10.0.0.7/", reach).is_ok());
        assert!(check("https://8.8.8.8/", reach).is_ok());
        assert!(check("https://example.com/", reach).is_ok());
    }
}

#[test]
fn of_a_mixed_lot_only_the_good_addresses_are_dialled() {
    let none = guard(AllowPrivate::No, &["proxy.corp"]);
    let mixed = sockets(&["10.0.0.1", "169.254.169.254", "8.8.8.8"]);
    assert_eq!(
        none.admitted("x.io", mixed.clone(), Reach::Public),
        Ok(sockets(&["8.8.8.8"]))
    );
    assert_eq!(
        none.admitted("x.io", mixed.clone(), Reach::Inside),
        Ok(sockets(&["10.0.0.1", "8.8.8.8"]))
    );
    assert_eq!(
        none.admitted("proxy.corp", mixed.clone(), Reach::Public),
        Ok(sockets(&["10.0.0.1", "8.8.8.8"]))
    );
    let refused = none
        .admitted("x.io", sockets(&["10.0.0.1"]), Reach::Public)
        .unwrap_err();
    assert!(refused.to_string().contains("x.io is at 10.0.0.1"), "{refused}");
    let all = guard(AllowPrivate::All, &[]);
    assert_eq!(
        all.admitted("x.io", mixed, Reach::Public),
        Ok(sockets(&["10.0.0.1", "8.8.8.8"]))
    );
    assert!(
        all.admitted("x.io", sockets(&["169.254.1.1"]), Reach::Inside)
            .is_err()
    );
}

#[test]
fn a_registry_is_inside_only_if_all_its_addresses_are() {
    let reach = |addresses: &[&str]| reach_of_addresses(addresses.iter().map(|a| a.parse().unwrap()));
    assert_eq!(reach(&["10.0.0.1", "fd00::1"]), Reach::Inside);
    assert_eq!(reach(&["10.0.0.1", "8.8.8.8"]), Reach::Public);
    assert_eq!(reach(&["169.254.169.254"]), Reach::Public);
    assert_eq!(reach(&[]), Reach::Public);
}

#[tokio::test]
async fn a_loopback_name_is_inside() {
    let guard = guard(AllowPrivate::No, &[]);
    assert_eq!(guard.reach_of(&Host::Domain("localhost")).await, Reach::Inside);
    assert_eq!(
        guard.reach_of(&Host::Ipv4(Ipv4Addr::LOCALHOST)).await,
        Reach::Inside
    );
    assert_eq!(
        guard.reach_of(&Host::Ipv4(Ipv4Addr::new(8, 8, 8, 8))).await,
        Reach::Public
    );
    let found = guard.resolve("localhost", 1, Reach::Public).await.unwrap_err();
    assert!(found.downcast_ref::<Refused>().is_some(), "{found}");
}
