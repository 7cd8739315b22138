"""No address that is not public is ever talked to, however it is spelt."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import OpenClawError
from openclaw.tools.settings import FetchSettings
from openclaw.tools.web_client import system_resolve
from openclaw.tools.web_fetch import PageFetcher
from openclaw.tools.web_guard import AddressRules, check_addresses, check_host, is_public, parse_url

pytestmark = pytest.mark.anyio

REFUSED = """
http://127.0.0.1/ http://127.0.0.1:22/ http://127.1/ http://127.0.1/ http://0/ http://0.0.0.0/ http://0.0.0.0:8080/
http://2130706433/ http://0x7f000001/ http://0x7f.1/ http://0x7f.0.0.1/ http://0177.0.0.1/ http://0177.1/ http://017700000001/
http://127.000.000.001/ http://127.0.0.1./ http://127.255.255.254/ http://3232235777/ http://0xc0a80101/
http://10.0.0.1/ http://10.255.255.255/ http://172.16.0.1/ http://172.31.255.255/ http://192.168.0.1/ http://192.168.1.1:8443/
http://169.254.169.254/latest/meta-data/ http://169.254.170.2/v2/credentials http://[::ffff:169.254.169.254]/ http://2852039166/
http://0xa9fea9fe/ http://0251.0376.0251.0376/ http://169.254.1.1/ http://100.64.0.1/ http://100.100.100.200/ http://100.127.255.254/
http://168.63.129.16/ http://192.0.0.1/ http://192.0.2.1/ http://192.88.99.1/ http://198.18.0.1/ http://198.19.255.255/
http://198.51.100.1/ http://203.0.113.1/ http://224.0.0.1/ http://239.255.255.250/ http://240.0.0.1/ http://255.255.255.255/
http://[::1]/ http://[::]/ http://[0:0:0:0:0:0:0:1]/ http://[0000::0001]/ http://[::127.0.0.1]/ http://[::ffff:127.0.0.1]/
http://[::ffff:7f00:1]/ http://[0:0:0:0:0:ffff:7f00:1]/ http://[::ffff:10.0.0.1]/ http://[::ffff:c0a8:101]/ http://[::ffff:0:127.0.0.1]/
http://[64:ff9b::127.0.0.1]/ http://[64:ff9b::7f00:1]/ http://[64:ff9b::a00:1]/ http://[64:ff9b::a9fe:a9fe]/ http://[64:ff9b:1::1]/
http://[2002:7f00:1::]/ http://[2002:a00:1::1]/ http://[2002:c0a8:101::1]/ http://[2001:0:7f00:1::]/ http://[2001::1]/
http://[fe80::1]/ http://[fe80::1%25lo]/ http://[fec0::1]/ http://[fc00::1]/ http://[fd00::1]/ http://[fd00:ec2::254]/ http://[ff02::1]/
http://[2001:db8::1]/ http://[100::1]/ http://[::5efe:127.0.0.1]/ http://[2606:4700::5efe:10.0.0.1]/ http://[3fff::1]/
http://localhost/ http://LOCALHOST/ http://localhost./ http://a.localhost/ http://printer.local/ http://router.lan/
http://metadata.google.internal/computeMetadata/v1/ http://METADATA.google.internal./ http://metadata/ http://db.internal/
http://evil.example@127.0.0.1/ http://127.0.0.1@evil.example/ http://user:pass@example.com/ http://127.0.0.1%09/ http://127.0.0.1:0/
http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://１２７.0.0.1/ http://127.0.0.1\\@example.com/ http://example.com\\@127.0.0.1/
file:///etc/passwd ftp://127.0.0.1/ gopher://127.0.0.1:70/_x dict://127.0.0.1:11211/ ldap://127.0.0.1/
jar:http://x!/ data:text/html,x javascript:alert(1) http:/// http:// //127.0.0.1/ 127.0.0.1 http://[::1 http://[]/ http://[127.0.0.1]/
http:127.0.0.1 unix:/run/x.sock
""".split()


@pytest.mark.parametrize("url", REFUSED)
async def test_it_is_refused(url):
    pages = PageFetcher(AddressRules(), FetchSettings(timeout_seconds=5), system_resolve)
    with pytest.raises(OpenClawError) as refusal:
        await pages.get(url)
    assert "No complete answer" not in refusal.value.message


def test_the_corpus_is_large_enough():
    assert len(set(REFUSED)) >= 100


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_public_addresses_are_public(text):
    assert is_public(ipaddress.ip_address(text))


@given(st.ip_addresses(v=4))
def test_no_disguise_makes_a_private_address_public(address):
    mapped = ipaddress.ip_address(f"::ffff:{address}")
    translated = ipaddress.ip_address(int(ipaddress.ip_address("64:ff9b::")) + int(address))
    assert is_public(mapped) == is_public(translated) == is_public(address)
    if not address.is_global:
        assert not is_public(address)
        assert not is_public(ipaddress.ip_address((0x2002 << 112) | (int(address) << 80)))


def test_one_private_answer_refuses_a_name_altogether():
    with pytest.raises(OpenClawError):
        check_addresses("mixed.example", ["8.8.8.8", "10.0.0.1"], AddressRules())
    assert check_addresses("fine.example", ["8.8.8.8"], AddressRules()) == ["8.8.8.8"]
    with pytest.raises(OpenClawError):
        check_addresses("nothing.example", [], AddressRules())


def test_the_owner_may_open_and_close():
    assert check_addresses("10.0.0.5", ["10.0.0.5"], AddressRules(allow_private=True))
    assert check_addresses("wiki.lan", ["10.0.0.5"], AddressRules(allowed_hosts=("*.lan",)))
    check_host("wiki.lan", AddressRules(allowed_hosts=("*.lan",)))
    with pytest.raises(OpenClawError):
        check_addresses("other.example", ["10.0.0.5"], AddressRules(allowed_hosts=("*.lan",)))
    with pytest.raises(OpenClawError):
        check_host("ads.example", AddressRules(blocked_hosts=("*.example",)))
    with pytest.raises(OpenClawError, match="metadata"):
        check_addresses("169.254.169.254", ["169.254.169.254"], AddressRules(allow_private=True))


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_a_clear_error(text):
    try:
        assert parse_url(text).hostname
    except OpenClawError as error:
        assert error.message
