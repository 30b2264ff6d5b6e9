{-# LANGUAGE OverloadedStrings #-}

-- | Redirections: where they lead, with what method, and what they may keep.
module ClientRedirect
  ( tests,
  )
where

import ClientFixture
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import EngineFixture (onBothBackends)
import Heddle.Http.Client
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests = testGroup "redirections" [references, requests, following]

references :: TestTree
references =
  testGroup
    "references"
    [ testGroup "RFC 3986, section 5.4" [testCase (show reference) (fmap rendered (resolveReference base reference) @?= Right expected) | (reference, expected) <- examples],
      testCase "other schemes, other places" $ do
        resolveReference base "ftp://a/" @?= Left UrlScheme
        resolveReference base "javascript:alert(1)" @?= Left UrlScheme
        resolveReference base "unix:/run/docker.sock:/" @?= Left UrlScheme
        resolveReference base "http://u:p@a/" @?= Left UrlUserInfo
        resolveReference base "/a b" @?= Left UrlPath
        resolveReference base "/a\r\nX: y" @?= Left UrlPath
        resolveReference base "//" @?= Left UrlHost
        resolveReference (Url (Origin False (UnixSocket "/s")) "/") "//a/" @?= Left UrlScheme,
      testProperty "any reference leads to a valid target, or is refused" $ \bytes ->
        case resolveReference base (B.pack bytes) of
          Left _ -> property True
          Right url -> parseUrl (rendered url) === Right url
    ]
  where
    base = Url (Origin False (Tcp "a" 80)) "/b/c/d;p?q"
    examples =
      [ ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q"),
        ("g#s", "http://a/b/c/g"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("https://b:8443/x/../y", "https://b:8443/y")
      ]

rendered :: Url -> ByteString
rendered url = C.pack (renderOrigin (urlOrigin url)) <> urlTarget url

requests :: TestTree
requests =
  testGroup
    "requests"
    [ testCase "methods" $ do
        let methods code = [fmap requestMethod <$> redirected code (Just "/y") (asking verb) | verb <- ["GET", "HEAD", "POST", "PUT"]]
            becomes = map (Right . Just)
        methods 301 @?= becomes ["GET", "HEAD", "GET", "PUT"]
        methods 302 @?= becomes ["GET", "HEAD", "GET", "PUT"]
        methods 303 @?= becomes ["GET", "HEAD", "GET", "GET"]
        methods 307 @?= becomes ["GET", "HEAD", "POST", "PUT"]
        methods 308 @?= becomes ["GET", "HEAD", "POST", "PUT"]
        methods 304 @?= replicate 4 (Right Nothing)
        methods 200 @?= replicate 4 (Right Nothing),
      testCase "headers within an origin" $
        names (redirected 307 (Just "/y") (asking "PUT")) @?= ["Authorization", "cookie", "Content-Type", "A"],
      testCase "credentials stay with their origin" $
        names (redirected 307 (Just "http://b/") (asking "PUT")) @?= ["Content-Type", "A"],
      testCase "another port or scheme is another origin" $ do
        names (redirected 307 (Just "http://a:81/") (asking "PUT")) @?= ["Content-Type", "A"]
        names (redirected 307 (Just "https://a/") (asking "PUT")) @?= ["Content-Type", "A"],
      testCase "a body that is dropped is not described" $
        names (redirected 303 (Just "/y") (asking "POST")) @?= ["Authorization", "cookie", "A"],
      testCase "a Host of its own stays with its origin" $ do
        (fmap requestHost <$> redirected 307 (Just "/y") (asking "GET") {requestHost = Just "h"}) @?= Right (Just (Just "h"))
        (fmap requestHost <$> redirected 307 (Just "http://b/y") (asking "GET") {requestHost = Just "h"}) @?= Right (Just Nothing),
      testCase "a body that cannot be sent again" $ do
        let streaming = (asking "PUT") {requestBody = BodyChunked (\_ -> pure ())}
        fmap (fmap requestMethod) (redirected 307 (Just "/y") streaming) @?= Right Nothing
        fmap (fmap requestMethod) (redirected 303 (Just "/y") streaming) @?= Right (Just "GET")
    ]
  where
    asking verb =
      (requestTo verb (Origin False (Tcp "a" 80)) "/x")
        { requestHeaders = [Header "Authorization" "b", Header "cookie" "c", Header "Content-Type" "d", Header "A" "e"],
          requestBody = BodyBytes "body"
        }
    names = \case
      Right (Just request) -> [n | Header n _ <- requestHeaders request]
      _ -> []

following :: TestTree
following = onBothBackends "following" $ \backend ->
  [ testCase "to the end, with relative addresses" $
      withScripted steps $ \origin ->
        withPatient backend patient $ \client -> do
          (request, fetched) <- fetchFollowing client 5 (get origin "/a/1") 100
          requestTarget request @?= "/a/3?x"
          (statusCode (fetchedStatus fetched), fetchedContent fetched) @?= (200, "GET /a/3?x"),
    testCase "not for ever" $
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n" >> steps 0 peer) $ \origin ->
        withPatient backend patient $ \client ->
          failureIs (== TooManyRedirects 3) "TooManyRedirects" (snd <$> fetchFollowing client 3 (get origin "/loop") 100),
    testCase "to nowhere" $
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 302 Found\r\nLocation: ftp://a/\r\nContent-Length: 0\r\n\r\n") $ \origin ->
        withPatient backend patient $ \client ->
          failureIs (\case BadRedirect _ -> True; _ -> False) "BadRedirect" (snd <$> fetchFollowing client 3 (get origin "/") 100)
  ]
  where
    steps :: Int -> Peer -> IO ()
    steps i peer = do
      h <- hearHead peer
      let to location = "HTTP/1.1 302 Found\r\nLocation: " <> location <> "\r\nContent-Length: 3\r\n\r\nold"
      tell peer $ case C.words h of
        _ : "/a/1" : _ -> to "2"
        _ : "/a/2" : _ -> to "/b/../a/3?x#y"
        _ : "/again" : _ -> to "/again"
        _ : "/loop" : _ -> to "/again"
        verb : target : _ -> simple (verb <> " " <> target)
        _ -> simple "?"
      steps i peer
