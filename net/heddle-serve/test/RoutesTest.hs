{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | Prefixes and suffixes: how they are written, which path they take, and that files keep the rest.
module RoutesTest (tests) where

import Control.Monad (forM_, replicateM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Either (isLeft)
import Heddle.Gateway.Place
import Heddle.Gateway.Proxy (Upstream (..))
import Heddle.Http (Reply (..), method, readWholeBody, status200, pattern MethodPost)
import Heddle.Http.UriPath (decodeBothWays, decodePath, pathRelative)
import Heddle.Prim.Exception (throwIO)
import Heddle.Serve (parseUpstreams)
import Heddle.Serve.Internal
import Heddle.Testkit.HttpClient
import SiteFixture
import System.Directory (createDirectory)
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "routes"
    [ testCase "as users write them" written,
      testCase "what is no route" notWritten,
      testCase "servers and their weights" weights,
      testCase "the longest prefix by whole segments, suffixes first" longest,
      testCase "beside files: no spelling of a path gets around its route" besides,
      testCase "encodedSlashesHadNoRoute" encodedSlashes,
      testCase "programs get encoded slashes as slashes" slashesOfPrograms,
      testCase "files that are programs are not sent as files" programs
    ]

weights :: IO ()
weights = do
  weightsOf "http://a*3,http://b/x,unix:/run/s:*12" @?= Right [3, 1, 12]
  weightsOf "http://a/x*" @?= Right [1]
  -- A star that is the path's is written as %2A.
  weightsOf "http://a/x%2A3" @?= Right [1]
  assertBool "out of bounds" (all (isLeft . weightsOf) ["http://a*0", "http://a*1001", "http://a*99999999999999999999", "*3", "http://a,*2"])
  where
    weightsOf text =
      parseUpstreams text >>= \case
        ProxyTo servers -> Right (map upstreamWeight servers)
        other -> Left (show other)

spec :: String -> Either String RoutePattern
spec = fmap specPattern . parseRoute (Right . CgiDirectory)

written :: IO ()
written = do
  spec "/cgi-bin=x" @?= Right (RoutePattern "cgi-bin" "")
  spec "/cgi-bin/=x" @?= Right (RoutePattern "cgi-bin" "")
  spec "/=x" @?= Right (RoutePattern "" "")
  spec "/a%20b/./c=x" @?= Right (RoutePattern "a b/c" "")
  spec "/*.php=x" @?= Right (RoutePattern "" ".php")
  spec "/blog/*.php=x" @?= Right (RoutePattern "blog" ".php")
  fmap specTarget (parseRoute (Right . CgiDirectory) "/a=b=c") @?= Right (CgiDirectory "b=c")
  forM_ ["/", "/a", "/a/b", "/*.php", "/a/*.cgi"] $ \text -> fmap renderPattern (spec (text ++ "=x")) @?= Right text
  repeatedPattern [RouteSpec (RoutePattern "a" "") (CgiDirectory "x"), RouteSpec (RoutePattern "a" "") (CgiDirectory "y")] @?= Just (RoutePattern "a" "")

notWritten :: IO ()
notWritten =
  forM_ ["", "/a", "/a=", "a=x", "=x", "/../a=x", "/%=x", "/a%2fb=x", "/*=x", "/a/*/b=x", "/*.=x", "/*.php/=x", "/*.p*=x", "/x*.php=x"] $ \text ->
    assertBool text (isLeft (spec text))

-- Answers with a name, and the place that it was given.
named :: ByteString -> Gateway
named name place request = do
  code <- method request
  body <- if code == MethodPost then readWholeBody request 1000 else pure ""
  pure (Whole status200 [] (C.intercalate "|" [name, placePrefix place, placeRest place, placePath place, body]))

longest :: IO ()
longest = do
  let routes = newRoutes LongestPrefix [(RoutePattern "" ".php", Through (named "php")), (RoutePattern "a" "", Through (named "a")), (RoutePattern "a/b" "", Through (named "ab")), (RoutePattern "a/b" ".php", Through (named "abphp"))]
      at path = fmap foundFile . findRoute routes <$> decodePath path
  at "/" @?= Right Nothing
  at "/x.php" @?= Right (Just True)
  at "/x.php/more" @?= Right (Just True)
  at "/.php" @?= Right Nothing
  at "/x.phpx" @?= Right Nothing
  at "/a" @?= Right (Just False)
  at "/ab" @?= Right Nothing
  at "/a/x.php" @?= Right (Just False)
  at "/a/b/x.php" @?= Right (Just True)
  at "/a/b/x" @?= Right (Just False)
  -- In their order, the first that matches.
  let ordered = newRoutes AsWritten [(RoutePattern "a" "", Through (named "a")), (RoutePattern "a/b" "", Through (named "ab")), (RoutePattern "" "", Through (named "all"))]
      prefixAt path = fmap (placePrefix . foundPlace) . findRoute ordered <$> decodePath path
  prefixAt "/a/b/x" @?= Right (Just "a")
  prefixAt "/c" @?= Right (Just "")

besides :: IO ()
besides = withRoutedSite routes populate $ \site -> do
  let says path = answerBody <$> asking site "GET" path []
  -- The first request makes an entry of the cache, if anything does.
  replicateM_ 2 $ do
    says "/app/page" >>= (@?= "app|app|page|/app/page|")
    says "/file" >>= (@?= "a file")
  says "/app" >>= (@?= "app|app||/app|")
  says "/app/" >>= (@?= "app|app||/app/|")
  says "/a%70p/page" >>= (@?= "app|app|page|/app/page|")
  says "/x/../app/./page" >>= (@?= "app|app|page|/app/page|")
  says "//app//page?q" >>= (@?= "app|app|page|/app/page|")
  says "/app/%41%20b" >>= (@?= "app|app|A b|/app/A b|")
  -- Not below the prefix.
  asking site "GET" "/application" [] >>= answersWith 200 "not routed"
  asking site "GET" "/app/../file" [] >>= answersWith 200 "a file"
  -- What has no decoded path has no route.
  asking site "GET" "/app/%2e%2e/%2e%2e/file" [] >>= (@?= 404) . answerCode
  -- Every method is the gateway's.
  with site $ \client -> do
    say client "POST /app/form HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"
    hearAnswer client >>= answersWith 200 "app|app|form|/app/form|hello"
    say client "POST /file HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"
    hearAnswer client >>= (@?= 405) . answerCode
  lines' <- siteLines site
  assertBool "routed requests are in the log" (any ("GET /app/page HTTP/1.1" `B.isInfixOf`) lines')
  where
    routes = newRoutes LongestPrefix [(RoutePattern "app" "", Through (named "app"))]
    populate directory = do
      createDirectory (directory </> "app")
      B.writeFile (directory </> "app" </> "page") "the file below the route"
      B.writeFile (directory </> "application") "not routed"
      B.writeFile (directory </> "file") "a file"

encodedSlashes :: IO ()
encodedSlashes = withRoutedSite routes populate $ \site -> do
  let says path = answerBody <$> asking site "GET" path []
  says "/app/a%2Fb" >>= (@?= "app|app|a\0b|/app/a\0b|")
  says "/app/queues/%2f/x" >>= (@?= "app|app|queues/\0/x|/app/queues/\0/x|")
  says "/app/%252F" >>= (@?= "app|app|%2F|/app/%2F|")
  says "/a%2Fb.php" >>= (@?= "php||a\0b.php|/a\0b.php|")
  -- The two readings have different routes, so that one would be a way around the other's.
  forM_ ["/app/admin%2Fx", "/app/x%2F..%2Fadmin", "/app/x/..%2fadmin/y", "/app/%2e%2e%2Ffile", "/app%2Fx", "/x%2F..%2Fapp/y", "/app/..%2F..%2Fx", "/app/x.php%2F..%2F..", "/a.php%2F..%2Ffile", "/app/a%2F..%2Fb", "/app/./a%2Fb", "/x%2Fy/../zzz%2F..%2Fapp/admin/secret", "/x%2Fy/../zzz%2F..%2Fapp/admin/c.php", "/.git/a%2F../../a.php"] $ \path ->
    asking site "GET" path [] >>= (@?= (path, 404)) . (,) path . answerCode
  -- Names that begin with a dot are hidden in both.
  forM_ ["/x%2F.y/a.php", "/.y%2Fa.php"] $ \path -> asking site "GET" path [] >>= (@?= (path, 404)) . (,) path . answerCode
  -- Files have no such names.
  forM_ ["/file%2F", "/directory%2Ffile", "/%2Ffile", "/file%2Fx", "/files/file%2Fx", "/files/%2Ffile"] $ \path -> asking site "GET" path [] >>= (@?= (path, 404)) . (,) path . answerCode
  with site $ \client -> do
    say client "POST /app/a%2Fb HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello"
    hearAnswer client >>= answersWith 200 "app|app|a\0b|/app/a\0b|hello"
  where
    routes = newRoutes LongestPrefix [(RoutePattern "app" "", Through (named "app")), (RoutePattern "app/admin" "", Through (named "admin")), (RoutePattern "" ".php", Through (named "php")), (RoutePattern "files" "", Through away)]
    -- As a program whose answer is another path of the site.
    away place _ = either (const (fail "no path")) (\path -> throwIO (LocalFile path {pathRelative = "file" <> B.drop 4 (placeRest place)} (Redirected "" 1))) (decodePath "/file")
    populate directory = do
      createDirectory (directory </> "directory")
      B.writeFile (directory </> "directory" </> "file") "a file"
      B.writeFile (directory </> "file") "a file"

slashesOfPrograms :: IO ()
slashesOfPrograms = forM_ expected $ \(prefix, raw, result) -> do
  (octets, _) <- either (fail . show) pure (decodeBothWays raw)
  (raw, (\place -> (placeRest place, placeSlash place)) <$> withSlashes (placeOf prefix octets)) @?= (raw, result)
  where
    expected =
      [ ("app", "/app/a%2Fb", Just ("a/b", False)),
        ("app", "/app/%2F/x%2f", Just ("x", True)),
        ("", "/%2Fa", Just ("a", False)),
        ("app", "/app/%252F", Just ("%2F", False))
      ]

programs :: IO ()
programs = withRoutedSite routes populate $ \site -> do
  let says path = answerBody <$> asking site "GET" path []
  says "/index.html" >>= (@?= "a page")
  says "/a.htm" >>= (@?= "php||a.htm|/a.htm|")
  says "/a.htm/more/info" >>= (@?= "php||a.htm/more/info|/a.htm/more/info|")
  -- The directory's index is the program.
  replicateM_ 2 (says "/d/" >>= (@?= "php||d/index.htm|/d/index.htm|"))
  -- Names that begin with a dot are as hidden as files are.
  asking site "GET" "/.secret/a.htm" [] >>= (@?= 404) . answerCode
  where
    routes = newRoutes LongestPrefix [(RoutePattern "" ".htm", Through (named "php"))]
    populate directory = do
      createDirectory (directory </> "d")
      createDirectory (directory </> ".secret")
      B.writeFile (directory </> "d" </> "index.htm") "the program's text"
      B.writeFile (directory </> ".secret" </> "a.htm") "the program's text"
      B.writeFile (directory </> "index.html") "a page"
