{-# LANGUAGE OverloadedStrings #-}

-- | Addresses, networks, the PROXY protocol, and addresses in headers.
module ProxyParts
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.Either (isLeft)
import Heddle.Gateway.Proxy
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = testGroup "parts" [networks, announcements, rewritings]

four, six :: PeerAddress
four = PeerInternet 0 0xFFFFC0000207 1000
six = PeerInternet 0x20010DB800000000 7 2000

networks :: TestTree
networks =
  testGroup
    "networks"
    [ testCase "members" $
        forM_
          [ ("192.0.2.7", four, True),
            ("192.0.2.8", four, False),
            ("192.0.2.0/24", four, True),
            ("192.0.3.0/24", four, False),
            ("192.0.0.0/13", four, True),
            ("0.0.0.0/0", four, True),
            ("0.0.0.0/0", six, False),
            ("::/0", six, True),
            ("::ffff:192.0.2.0/120", four, True),
            ("2001:db8::/32", six, True),
            ("2001:db9::/32", six, False),
            ("2001:db8::7", six, True),
            ("2001:db8:0:0:0:0:0:8", six, False),
            ("unix", PeerLocal, True),
            ("0.0.0.0/0", PeerLocal, False)
          ]
          $ \(text, address, expected) -> fmap (isWithin address) (parseNetwork text) @?= Right expected,
      testCase "not networks" $
        forM_ ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/x", "::/129", "1::2::3", ":::", "1:2:3:4:5:6:7", "12345::", "g::", "1.2.3.4/-1", "1.2.3.0x4", "localhost"] $ \text ->
          (text, isLeft (parseNetwork text)) @?= (text, True),
      testCase "text" $ map peerText [four, six, PeerLocal] @?= ["192.0.2.7", "2001:db8::7", "unix"]
    ]

announcements :: TestTree
announcements =
  testGroup
    "the PROXY protocol"
    [ testCase "version 1" $
        map (uncurry (announcement AnnounceV1)) [(four, four), (six, six), (four, six), (PeerLocal, four)]
          @?= ["PROXY TCP4 192.0.2.7 192.0.2.7 1000 1000\r\n", "PROXY TCP6 2001:db8::7 2001:db8::7 2000 2000\r\n", "PROXY TCP6 ::ffff:192.0.2.7 2001:db8::7 1000 2000\r\n", "PROXY UNKNOWN\r\n"],
      testCase "version 2" $ do
        let signature = "\r\n\r\n\0\r\nQUIT\n"
        announcement AnnounceV2 four four @?= signature <> B.pack ([0x21, 0x11, 0, 12] ++ [192, 0, 2, 7] ++ [192, 0, 2, 7] ++ [3, 232, 3, 232])
        announcement AnnounceV2 six six @?= signature <> B.pack ([0x21, 0x21, 0, 36] ++ concat (replicate 2 ([0x20, 1, 0xD, 0xB8] ++ replicate 11 0 ++ [7])) ++ [7, 208, 7, 208])
        announcement AnnounceV2 PeerLocal four @?= signature <> B.pack [0x20, 0, 0, 0],
      testCase "none" $ announcement NoAnnouncement four four @?= ""
    ]

rewritings :: TestTree
rewritings =
  testGroup
    "addresses in headers"
    [ testCase "Location" $
        forM_
          [ ("http://up.example:8080/base/x?y#z", "/app/x?y#z"),
            ("HTTP://UP.example:8080/base", "/app"),
            ("https://up.example:8080/base/", "/app/"),
            ("http://up.example:8080/elsewhere", "http://up.example:8080/elsewhere"),
            ("http://up.example:8080/basement", "http://up.example:8080/basement"),
            ("http://other.example/base/x", "http://other.example/base/x"),
            ("http://up.example:8080.evil.example/base", "http://up.example:8080.evil.example/base"),
            ("//up.example:8080/base/x", "//up.example:8080/base/x"),
            ("/base/x", "/app/x"),
            ("/x", "/x"),
            ("x", "x"),
            ("", "")
          ]
          $ \(from, to) -> rewriteLocation rewriting from @?= to,
      testCase "aPathOfTwoSlashesNamedAHost" $ do
        let atRoot = rewriting {rewritingPrefix = ""}
        forM_ ["//evil.example/x", "/\\evil.example/x", "///evil.example/x"] $ \path ->
          (rewriteLocation atRoot ("/base" <> path), rewriteLocation atRoot ("http://up.example:8080/base" <> path)) @?= ("/evil.example/x", "/evil.example/x"),
      testCase "Set-Cookie" $
        forM_
          [ ("a=b", "a=b"),
            ("a=b; Path=/base", "a=b; Path=/app"),
            ("a=b;path=/base/x;Secure", "a=b; Path=/app/x;Secure"),
            ("a=b; Path=/; HttpOnly", "a=b; Path=/; HttpOnly"),
            ("a=b; Domain=.up.example; Path=/base/", "a=b; Path=/app/"),
            ("a=b; Domain=other.example", "a=b; Domain=other.example"),
            ("Path=/base; x", "Path=/base; x")
          ]
          $ \(from, to) -> rewriteCookie rewriting from @?= to,
      testCase "without a base, the root is the prefix" $
        (rewriteLocation bare "http://up.example:8080", rewriteLocation bare "/x", rewriteCookie bare "a=b; Path=/") @?= ("/app", "/app/x", "a=b; Path=/app/")
    ]
  where
    rewriting = Rewriting "/app" "/base" ["up.example:8080"] "up.example"
    bare = rewriting {rewritingBase = ""}
