{-# LANGUAGE OverloadedStrings #-}

-- | Addresses, and the heads of responses, on bytes in memory.
module ClientParsing
  ( tests,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toUpper)
import Data.Either (isLeft)
import Foreign.Ptr (castPtr)
import Heddle.Http.Client
import Heddle.Http.Client.Internal
import Heddle.Http.Internal (RejectReason (..), newHeadTable, startHead)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests = testGroup "parsing" [addresses, heads]

addresses :: TestTree
addresses =
  testGroup
    "addresses"
    [ testGroup "valid" [testCase (C.unpack text) (parseUrl text @?= Right url) | (text, url) <- good],
      testGroup "invalid" [testCase (show text) (parseUrl text @?= Left e) | (text, e) <- bad],
      testProperty "an origin and a target that are rendered are parsed back" . forAll validUrl $ \url ->
        parseUrl (rendered url) === Right url,
      testProperty "one forbidden byte anywhere makes it invalid" . forAll ((,,) <$> validUrl <*> arbitrary <*> forbidden) $ \(url, at, byte) ->
        let -- A Unix socket's path may have any byte but NUL.
            text = rendered url {urlOrigin = case originPlace (urlOrigin url) of Tcp _ _ -> urlOrigin url; UnixSocket _ -> Origin False (Tcp "a" 1)}
            -- After the scheme's colon and slashes.
            i = 7 + at `mod` max 1 (B.length text - 7)
         in counterexample (show (text, i, byte)) (isLeft (parseUrl (B.concat [B.take i text, B.singleton byte, B.drop i text]))),
      testProperty "any bytes have an answer" $ \bytes ->
        let text = B.pack bytes in either (const True) (const True) (parseUrl text) .&&. either (const True) (const True) (parseUrl ("http://" <> text)),
      testCase "errors are sentences" $ any (null . describeUrlError) [minBound .. maxBound] @?= False
    ]
  where
    good =
      [ ("http://a", Url (tcp False "a" 80) "/"),
        ("HTTPS://Example.ORG/a/b?c=d#e", Url (tcp True "example.org" 443) "/a/b?c=d"),
        ("http://a:8080?x", Url (tcp False "a" 8080) "/?x"),
        ("http://a:/", Url (tcp False "a" 80) "/"),
        ("http://[::1]:81/", Url (tcp False "::1" 81) "/"),
        ("https://[2001:DB8::1]", Url (tcp True "2001:db8::1" 443) "/"),
        ("http://a/x@y:z//..", Url (tcp False "a" 80) "/x@y:z//.."),
        ("unix:/run/a.sock", Url (Origin False (UnixSocket "/run/a.sock")) "/"),
        ("unix:/run/a.sock:/b?c", Url (Origin False (UnixSocket "/run/a.sock")) "/b?c")
      ]
    bad =
      [ ("", UrlScheme),
        ("ftp://a", UrlScheme),
        ("//a", UrlScheme),
        ("http:/a", UrlScheme),
        ("http://", UrlHost),
        ("http:///a", UrlHost),
        ("http://:80", UrlHost),
        ("http://user@a", UrlUserInfo),
        ("http://user:secret@a/", UrlUserInfo),
        ("http://a@b@c/", UrlUserInfo),
        ("http://a b/", UrlHost),
        ("http://a%2eb/", UrlHost),
        ("http://[::1/", UrlHost),
        ("http://[]/", UrlHost),
        ("http://[1]/", UrlHost),
        ("http://[::1]x/", UrlHost),
        ("http://[fe80::1%eth0]/", UrlHost),
        ("http://[::1][::2]/", UrlHost),
        ("http://a:0/", UrlPort),
        ("http://a:65536/", UrlPort),
        ("http://a:80:80/", UrlPort),
        ("http://a:-1/", UrlPort),
        ("http://a:8o/", UrlPort),
        ("http://a/b c", UrlPath),
        ("http://a/\r\nX: y", UrlPath),
        ("http://a/\xC3\xA9", UrlPath),
        ("http://a?\NUL", UrlPath),
        ("unix:", UrlSocketPath),
        ("unix:run/a", UrlSocketPath),
        ("unix:/", UrlSocketPath),
        ("unix:/" <> C.replicate 107 'a', UrlSocketPath),
        ("unix:/a:b", UrlPath)
      ]
    tcp secure name port = Origin secure (Tcp name port)
    -- A colon or a bracket may make another valid address; these bytes never do.
    forbidden = elements ([0 .. 32] ++ [127 .. 255])

rendered :: Url -> ByteString
rendered url = C.pack (renderOrigin (urlOrigin url)) <> (case originPlace (urlOrigin url) of UnixSocket _ -> ":"; _ -> "") <> urlTarget url

validUrl :: Gen Url
validUrl = Url <$> origin <*> target
  where
    origin =
      oneof
        [ Origin <$> arbitrary <*> (Tcp <$> host <*> choose (1, 65535)),
          Origin False . UnixSocket . C.pack . ('/' :) <$> resize 40 (listOf1 (elements (['a' .. 'z'] ++ "/._-")))
        ]
    host =
      oneof
        [ C.pack <$> resize 30 (listOf1 (elements (['a' .. 'z'] ++ ['0' .. '9'] ++ ".-_~"))),
          elements ["::1", "2001:db8::7", "::ffff:1.2.3.4"]
        ]
    target = C.pack . ('/' :) <$> listOf (elements (filter (/= '#') ['!' .. '~']))

-- Heads ------------------------------------------------------------------------------------

-- The answers to the bytes in these pieces: the last one, and what follows a whole head.
parsed :: Asked -> [ByteString] -> IO (AnswerParsed, Maybe (Int, Content))
parsed asked pieces = do
  table <- newHeadTable 10
  startHead table
  let whole = B.concat pieces
      go n = \case
        [] -> pure AnswerMore
        piece : more -> do
          let n' = n + B.length piece
          -- A copy that ends where the bytes end, so that reading beyond them can be noticed.
          r <- unsafeUseAsCStringLen (B.copy (B.take n' whole)) $ \(p, len) -> parseAnswer limits (castPtr p) len table
          case r of
            AnswerMore -> go n' more
            _ -> pure r
  answer <- go 0 pieces
  case answer of
    AnswerDone _ -> do
      code <- answerCode table
      content <- unsafeUseAsCStringLen whole $ \(p, _) -> contentOf limits asked (castPtr p) table
      pure (answer, Just (code, content))
    _ -> pure (answer, Nothing)
  where
    limits = (clientLimits defaultClientSettings) {limitHeadBytes = 300, limitHeaders = 5}

heads :: TestTree
heads =
  testGroup
    "heads of responses"
    [ testGroup "valid" [testCase (show bytes) (parsed AskedContent [bytes] >>= (@?= (AnswerDone (B.length bytes), Just what))) | (bytes, what) <- good],
      testGroup "invalid" [testCase (show bytes) (parsed AskedContent [bytes <> "\r\n\r\n"] >>= (@?= AnswerWrong fault) . fst) | (bytes, fault) <- bad],
      testGroup "framing" [testCase (show (asked, bytes)) (parsed asked ["HTTP/1.1 " <> bytes <> "\r\n\r\n"] >>= (@?= Just content) . fmap snd . snd) | (asked, bytes, content) <- framings],
      testProperty "splitting: the answer does not depend on the pieces" . forAll ((,) <$> anyHead <*> listOf (choose (1, 40))) $ \(bytes, cuts) ->
        ioProperty $ do
          whole <- parsed AskedContent [bytes]
          single <- parsed AskedContent (map B.singleton (B.unpack bytes))
          some <- parsed AskedContent (cutAt cuts bytes)
          pure (whole === single .&&. whole === some),
      testProperty "onlyInvalid: a control byte anywhere before the last line's end is refused" . forAll ((,,) <$> validHead <*> arbitrary <*> elements ([0 .. 8] ++ [10 .. 31] ++ [127])) $ \(bytes, at, byte) ->
        let i = at `mod` (B.length bytes - 2)
            broken = B.concat [B.take i bytes, B.singleton byte, B.drop i bytes]
         in counterexample (show broken) . ioProperty $ refused . fst <$> parsed AskedContent [broken],
      testProperty "onlyInvalid: bytes of another protocol" . forAll arbitrary $ \noise ->
        let bytes = B.pack noise
         in not ("H" `B.isPrefixOf` bytes) && not (B.null bytes) ==> ioProperty ((=== AnswerWrong NotHttp) . fst <$> parsed AskedContent [bytes])
    ]
  where
    refused = \case
      AnswerWrong _ -> True
      _ -> False
    good =
      [ ("HTTP/1.1 200 OK\r\n\r\n", (200, UntilClose)),
        ("HTTP/1.0 200 OK\r\n\r\n", (200, UntilClose)),
        ("HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n", (200, SizedContent 5)),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", (200, NoContent)),
        ("HTTP/1.7 599 \xC3\xA9 phrase\r\nTransfer-Encoding: Chunked\r\n\r\n", (599, ChunkedContent)),
        -- What only a request must not have.
        ("HTTP/1.1 200 OK\r\nHost: a\r\nHost: b c\r\nContent-Length: 1\r\n\r\n", (200, SizedContent 1)),
        ("HTTP/1.1 204 No Content\r\n\r\n", (204, NoContent)),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", (304, NoContent)),
        ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", (103, Interim))
      ]
    bad =
      [ ("SSH-2.0-OpenSSH_9.2", NotHttp),
        ("http/1.1 200 OK", NotHttp),
        ("HTTP/2 200 OK", NotHttp),
        ("HTTP/2.0 200 OK", NotHttp),
        ("\r\nHTTP/1.1 200 OK", NotHttp),
        ("HTTP/1.x 200 OK", BadStatusLine),
        ("HTTP/1.1  200 OK", BadStatusLine),
        ("HTTP/1.1 20 OK", BadStatusLine),
        ("HTTP/1.1 2000 OK", BadStatusLine),
        ("HTTP/1.1 2x0 OK", BadStatusLine),
        ("HTTP/1.1 200OK", BadStatusLine),
        ("HTTP/1.1 200 O\rK", BadStatusLine),
        ("HTTP/1.1", BadStatusLine),
        ("HTTP/1.1 099 No", BadStatusCode),
        ("HTTP/1.1 600 No", BadStatusCode),
        ("HTTP/1.1 200 OK\nA: b", Malformed BareLineFeed),
        ("HTTP/1.1 200 OK\r\nA: b\nC: d", Malformed BareLineFeed),
        ("HTTP/1.1 200 OK\r\nA: b\rC: d", Malformed BareCarriageReturn),
        ("HTTP/1.1 200 OK\r\nA: b\r\n folded", Malformed FoldedHeader),
        ("HTTP/1.1 200 OK\r\n folded", Malformed FoldedHeader),
        ("HTTP/1.1 200 OK\r\nA : b", Malformed SpaceBeforeColon),
        ("HTTP/1.1 200 OK\r\n: b", Malformed EmptyHeaderName),
        ("HTTP/1.1 200 OK\r\nA", Malformed MissingColon),
        ("HTTP/1.1 200 OK\r\nA(: b", Malformed BadHeaderName),
        ("HTTP/1.1 200 OK\r\nA: b\NULc", Malformed BadHeaderValue),
        ("HTTP/1.1 200 OK\r\n" <> B.concat (replicate 6 "A: b\r\n"), Malformed TooManyHeaders),
        ("HTTP/1.1 200 OK\r\nA: " <> C.replicate 300 'b', Malformed HeadTooLarge),
        ("HTTP/1.1 200 " <> C.replicate 300 'b', Malformed HeadTooLarge)
      ]
    framings =
      [ (AskedContent, "200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", wrong LengthWithCoding),
        (AskedContent, "200 OK\r\nContent-Length: 5\r\nContent-Length: 5", wrong RepeatedLength),
        (AskedContent, "200 OK\r\nContent-Length: 5, 5", wrong BadLength),
        (AskedContent, "200 OK\r\nContent-Length: +5", wrong BadLength),
        (AskedContent, "200 OK\r\nContent-Length: ", wrong BadLength),
        (AskedContent, "200 OK\r\nContent-Length: 99999999999999999999", wrong BodyTooLarge),
        (AskedContent, "200 OK\r\nTransfer-Encoding: gzip, chunked", wrong UnknownCoding),
        (AskedContent, "200 OK\r\nTransfer-Encoding: gzip", wrong BadCoding),
        (AskedContent, "200 OK\r\nTransfer-Encoding: chunked, chunked", wrong BadCoding),
        (AskedContent, "200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked", wrong BadCoding),
        (AskedContent, "204 No\r\nContent-Length: 5", Unkept NoContent),
        (AskedContent, "204 No\r\nContent-Length: 0", NoContent),
        (AskedContent, "204 No\r\nTransfer-Encoding: chunked", Unkept NoContent),
        (AskedContent, "204 No\r\nContent-Length: 5\r\nTransfer-Encoding: gzip, x", Unkept NoContent),
        (AskedContent, "304 No\r\nContent-Length: 5", NoContent),
        (AskedContent, "304 No\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", Unkept NoContent),
        (AskedContent, "100 No\r\nContent-Length: 5", Unkept Interim),
        (AskedContent, "103 No\r\nTransfer-Encoding: chunked", Unkept Interim),
        (AskedContent, "101 No", ContentWrong UnaskedSwitch),
        (AskedUpgrade, "101 Yes", Switched),
        (AskedUpgrade, "101 Yes\r\nContent-Length: 3", Switched),
        (AskedUpgrade, "101 Yes\r\nTransfer-Encoding: chunked", Switched),
        (AskedUpgrade, "200 No\r\nContent-Length: 3", SizedContent 3),
        (AskedTunnel, "200 Yes", Switched),
        (AskedTunnel, "200 Yes\r\nTransfer-Encoding: chunked", Switched),
        (AskedTunnel, "407 No\r\nContent-Length: 3", SizedContent 3),
        (AskedHead, "200 OK\r\nContent-Length: 5", NoContent),
        (AskedHead, "200 OK\r\nTransfer-Encoding: chunked", NoContent),
        (AskedHead, "200 OK", NoContent),
        (AskedHead, "200 OK\r\nContent-Length: 5\r\nContent-Length: 6", Unkept NoContent)
      ]
    wrong = ContentWrong . Malformed

cutAt :: [Int] -> ByteString -> [ByteString]
cutAt cuts bytes = case cuts of
  [] -> [bytes]
  n : more
    | B.null bytes -> []
    | otherwise -> let (a, b) = B.splitAt n bytes in a : cutAt more b

validHead :: Gen ByteString
validHead = do
  code <- choose (200, 599 :: Int)
  phrase <- text
  fields <- resize 4 (listOf ((\n v -> B.concat [n, ": ", v, "\r\n"]) <$> name <*> text))
  pure (B.concat (["HTTP/1.1 ", C.pack (show code), " ", phrase, "\r\n"] ++ fields ++ ["\r\n"]))
  where
    name = elements ["Content-Type", "Server", "ETag", "X-A", "Connection", "set-cookie"]
    text = C.pack <$> resize 20 (listOf (elements (['a' .. 'z'] ++ " ,;=\"")))

-- Valid heads, and some with one mistake.
anyHead :: Gen ByteString
anyHead = oneof [validHead, broken, swapped]
  where
    broken = do
      bytes <- validHead
      i <- choose (0, B.length bytes)
      byte <- arbitrary
      pure (B.concat [B.take i bytes, B.singleton byte, B.drop i bytes])
    swapped = C.map toUpper <$> validHead
