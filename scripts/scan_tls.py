#!/usr/bin/env python3
"""What testssl.sh and sslyze find in heddle serve with TLS, which should be nothing.

usage: scan_tls.py HEDDLE TESTSSL SSLYZE

The certificate is this script's own, so findings about certificates are left out. sslyze compares with Mozilla's intermediate
configuration. Resumption by tickets is tried here: testssl.sh's client leaves at the end of its input, in TLS 1.3 often before the
tickets have come, and then says of any server that it could not connect.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Findings about this script's certificate, about the scanner's own libssl, and about what one machine cannot show.
OWN = re.compile(r"cert_|OCSP_stapling|DNS_CAArecord|overall_grade|scanTime|scanProblem|engine_problem")

# The one check that this script makes in place of testssl.sh, when that one could not.
NOT_TRIED = ("sessionresumption_ticket", "check failed because of connect problem")


def certificates(folder):
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "90", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *key, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "extendedKeyUsage=serverAuth",
            "-keyout", "site.key", "-out", "request")
    openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "80", "-copy_extensions", "copy", "-out", "site.pem")
    (folder / "chain.pem").write_text((folder / "site.pem").read_text() + (folder / "ca.pem").read_text())


def by_testssl(program, folder, place):
    report = folder / "testssl.json"
    subprocess.run([program, "--quiet", "--color", "0", "--warnings", "off", "--add-ca", folder / "ca.pem", "--jsonfile", report, f"https://{place}"],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=False)
    findings = json.loads(report.read_text())
    if len(findings) < 100:
        sys.exit(f"testssl.sh has looked at {len(findings)} things only")
    bad = [f for f in findings if f["severity"] not in ("OK", "INFO") and not OWN.match(f["id"]) and (f["id"], f["finding"]) != NOT_TRIED]
    return len(findings), [f"{f['id']}: {f['severity']}: {f['finding']}" for f in bad]


def by_sslyze(program, place):
    said = subprocess.run([program, place], capture_output=True, text=True, timeout=600, check=False).stdout
    if "COMPLIANCE AGAINST TLS CONFIGURATION" not in said:
        sys.exit("sslyze has compared nothing:\n" + said)
    compliance = said.split("COMPLIANCE AGAINST TLS CONFIGURATION")[1]
    bad = [line.strip() for line in compliance.splitlines() if line.strip().startswith("* ") and "certificate_path_validation" not in line]
    vulnerable = [line.strip() for line in said.splitlines() if "VULNERABLE" in line and "Not vulnerable" not in line]
    return bad + vulnerable


def by_resuming(folder, place):
    """A complaint for each version of TLS whose second session is not resumed by the first one's ticket."""

    def ask(*arguments):
        request = f"GET / HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n"
        # Until the server closes, so that tickets are read.
        return subprocess.run(["openssl", "s_client", "-connect", place, "-servername", "localhost", "-ign_eof", *arguments],
                              input=request, capture_output=True, text=True, timeout=60, check=False).stdout

    bad = []
    for version in ["tls1_2", "tls1_3"]:
        session = folder / version
        ask("-" + version, "-sess_out", session)
        if not session.exists():
            bad.append(f"{version}: no session ticket")
        elif "\nReused, " not in ask("-" + version, "-sess_in", session):
            bad.append(f"{version}: the ticket does not resume the session")
    return bad


def main():
    heddle, testssl, sslyze = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        certificates(folder)
        (folder / "site").mkdir()
        (folder / "site" / "index.html").write_text("<!doctype html><title>scanned</title>\n")
        server = subprocess.Popen([heddle, "serve", folder / "site", "--listen", "https://localhost:0", "--hsts", "31536000", "--security-headers",
                                   "--tls-cert", folder / "chain.pem", "--tls-key", folder / "site.key"], stdout=subprocess.PIPE, text=True)
        try:
            line = server.stdout.readline()
            found = re.search(r"https://(localhost:\d+)", line)
            if not found:
                sys.exit("heddle serve does not say where it serves: " + line)
            count, bad = by_testssl(testssl, folder, found[1])
            print(f"testssl.sh: {count} findings, {len(bad)} of them bad")
            more = by_sslyze(sslyze, found[1])
            print(f"sslyze: {len(more)} findings against Mozilla's intermediate configuration")
            unresumed = by_resuming(folder, found[1])
            print(f"openssl: {len(unresumed)} versions without resumption by tickets")
        finally:
            server.terminate()
            server.wait()
    for finding in bad + more + unresumed:
        print("  " + finding)
    sys.exit(1 if bad + more + unresumed else 0)


main()
