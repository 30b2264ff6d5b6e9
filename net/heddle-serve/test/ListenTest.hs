module ListenTest (tests) where

import Data.Either (isLeft)
import Data.List (isInfixOf)
import GHC.IO.Exception (ioe_description)
import Heddle.Prim.Exception (try)
import Heddle.Serve.Internal
import Network.Socket (SockAddr (..), getAddrInfo, tupleToHostAddress)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Listen"
    [ testGroup
        "examples"
        [ testCase text (parseListen text @?= Right expected)
          | (text, expected) <-
              [ ("8080", http (ListenHost "" 8080)),
                (":8080", http (ListenHost "" 8080)),
                ("localhost", http (ListenHost "localhost" 8080)),
                ("localhost:0", http (ListenHost "localhost" 0)),
                ("127.0.0.1:65535", http (ListenHost "127.0.0.1" 65535)),
                ("[::1]:80", http (ListenHost "::1" 80)),
                ("[::1]", http (ListenHost "::1" 8080)),
                ("unix:/run/site.sock", http (ListenUnix "/run/site.sock")),
                ("unix:a:b", http (ListenUnix "a:b")),
                ("systemd", http (ListenInherited "")),
                ("systemd:web", http (ListenInherited "web")),
                ("systemd:80", http (ListenHost "systemd" 80)),
                ("https://systemd:web", https (ListenInherited "web")),
                ("http://localhost", http (ListenHost "localhost" 80)),
                ("http://localhost:81/", http (ListenHost "localhost" 81)),
                ("https://:8443", https (ListenHost "" 8443)),
                ("https://8443", https (ListenHost "" 8443)),
                ("https://localhost", https (ListenHost "localhost" 443)),
                ("https://localhost/", https (ListenHost "localhost" 443)),
                ("https://[::1]", https (ListenHost "::1" 443)),
                ("https://unix:/run/site.sock", https (ListenUnix "/run/site.sock"))
              ]
        ],
      testProperty "parseUndoesRender" $ forAll validSpec $ \spec -> parseListen (renderListen spec) === Right spec,
      testProperty "invalidIsRefusedWithAHint" $
        forAll invalidText $ \text ->
          case parseListen text of
            Left why -> counterexample why (length why > 20)
            Right spec -> counterexample (show spec) False,
      testProperty "any text gets an answer, and an accepted one means the same when rendered" $ \text ->
        either (const (property True)) (\spec -> parseListen (renderListen spec) === Right spec) (parseListen text),
      testCase "a Unix socket's path is measured in bytes" $ do
        assertBool "107 bytes are accepted" (not (isLeft (parseListen ("unix:" ++ replicate 107 'a'))))
        assertBool "108 bytes are refused" (isLeft (parseListen ("unix:" ++ replicate 108 'a')))
        assertBool "54 letters of two bytes are refused" (isLeft (parseListen ("unix:" ++ replicate 54 'ä'))),
      testCase "aLookUpThatFailedWasAnUnknownName" $ do
        let name = "no such name"
        failed <- try (getAddrInfo Nothing (Just name) Nothing)
        told <- resolveListen (ListenHost name 80)
        case (failed, told) of
          (Left e, Left why) -> assertBool why (ioe_description e `isInfixOf` why)
          _ -> assertFailure (show (failed, told)),
      testCase "URLs" $ do
        let inet p = SockAddrInet p (tupleToHostAddress (127, 0, 0, 1))
        listenUrl (http (ListenHost "" 0)) (inet 4321) @?= "http://localhost:4321"
        listenUrl (http (ListenHost "0.0.0.0" 80)) (inet 80) @?= "http://localhost"
        listenUrl (http (ListenHost "::1" 0)) (SockAddrInet6 4321 0 (0, 0, 0, 1) 0) @?= "http://[::1]:4321"
        listenUrl (http (ListenHost "example.org" 8080)) (inet 8080) @?= "http://example.org:8080"
        listenUrl (https (ListenHost "example.org" 0)) (inet 443) @?= "https://example.org"
        listenUrl (https (ListenHost "example.org" 0)) (inet 80) @?= "https://example.org:80"
        listenUrl (http (ListenUnix "/run/a")) (SockAddrUnix "/run/a") @?= "unix:/run/a",
      testCase "addresses are found" $
        resolveListen (ListenHost "127.0.0.1" 81) >>= (@?= Right [SockAddrInet 81 (tupleToHostAddress (127, 0, 0, 1))]),
      testCase "a name without address says so" $
        resolveListen (ListenHost "no.such.name.invalid" 80) >>= \case
          Left why -> assertBool why ("unknown" `isInfixOf` why)
          Right found -> assertFailure ("expected no address, but got " ++ show found)
    ]

http, https :: ListenPlace -> ListenSpec
http = ListenSpec Http
https = ListenSpec Https

validSpec :: Gen ListenSpec
validSpec = ListenSpec <$> elements [Http, Https] <*> validPlace

validPlace :: Gen ListenPlace
validPlace =
  oneof
    [ ListenUnix <$> resize 100 (listOf1 (elements "/abc:.[]")),
      ListenHost <$> host <*> choose (0, 65535)
    ]
  where
    host =
      oneof
        [ elements ["", "localhost", "example.org", "0.0.0.0", "127.0.0.1", "::", "::1", "fe80::1%eth0", "2001:db8::8a2e:370:7334"],
          listOf1 (elements (['a' .. 'z'] ++ "-."))
        ]

invalidText :: Gen String
invalidText =
  oneof
    [ pure "",
      pure ":",
      pure "unix:",
      pure "https://",
      pure "https:///",
      pure "https://a/b",
      pure "http://localhost:80/index.html",
      pure "ftp://localhost",
      pure "https:/localhost",
      pure "[]",
      pure "[]:80",
      pure "[localhost]:80",
      (\p -> "localhost:" ++ show (p :: Int)) <$> choose (65536, 10000000),
      (\p -> "localhost:" ++ show (p :: Int)) <$> choose (-70000, -1),
      ("localhost:" ++) <$> elements ["http", "80a", "0x50", "8 0", "", "+80", "80.0", "٨٠"],
      pure "::1",
      pure "::1:80",
      pure "2001:db8::1",
      elements ["[::1", "[::1]80", "[::1]:", "[::1]x:80", "[::1]:99999", "["],
      (\n -> "unix:/" ++ replicate n 'x') <$> choose (107, 400),
      (\n -> show (n :: Integer)) <$> choose (65536, 10 ^ (30 :: Int))
    ]
