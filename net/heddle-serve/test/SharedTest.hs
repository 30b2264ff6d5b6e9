{-# LANGUAGE OverloadedStrings #-}

-- | What sites have in common: directories, caches, the clients of rates; within a generation and over a reload.
module SharedTest (tests) where

import Control.Monad (forM_, replicateM, replicateM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isSuffixOf)
import Data.List.NonEmpty (NonEmpty (..))
import Heddle.Http
import Heddle.Prim.Clock (seconds)
import Heddle.Serve.Internal hiding (siteDirectory)
import Heddle.Testkit.Descriptors (openDescriptors)
import Heddle.Testkit.HttpClient
import SiteFixture
import SitesTest (of', page, routed, serving, site)
import System.Directory (createDirectoryIfMissing, renameFile)
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "what sites share"
    [ testCase "thousandsOfHostsWereOpenedApart: one descriptor for all hosts of a directory, also while a reload goes on" descriptors,
      testCase "thousandsOfHostsWereOpenedApart: a cache for each kind of site, not for each site" caches,
      testCase "thousandsOfHostsWereOpenedApart: what options tell apart is not shared" differ,
      testCase "thousandsOfHostsWereOpenedApart: what was kept before a reload is compared with the disk" reloaded,
      testCase "thousandsOfHostsWereOpenedApart: in one table each host counts for itself, and a reload forgets nothing" rates
    ]

many :: Int
many = 2000

names :: [String]
names = ["h" ++ show i ++ ".example" | i <- [1 .. many]]

descriptors :: IO ()
descriptors = withDirectory $ \d -> do
  a <- page d "a" "a"
  createDirectoryIfMissing True (d </> "b")
  B.writeFile (d </> "b" </> "f") "of a route"
  let sites prefix = site a [] :| [routed (site a [prefix ++ name]) [("/files", FilesIn (d </> "b"))] | name <- names]
      roots = length . filter (\line -> any (`isSuffixOf` line) [a, d </> "b"]) <$> openDescriptors
  serving FirstSite (sites "") $ \running again -> do
    roots >>= (@?= 2)
    with running $ \client -> do
      of' client "h7.example" "/" >>= answersWith 200 "a"
      of' client "h8.example" "/files/f" >>= answersWith 200 "of a route"
      forM_ ["", "x"] $ \prefix -> do
        again (sites prefix) >>= either (fail . show) pure
        -- The old generation may still be open.
        roots >>= (@?= 2)
        of' client (C.pack prefix <> "h7.example") "/" >>= answersWith 200 "a"
        of' client (C.pack prefix <> "h8.example") "/files/f" >>= answersWith 200 "of a route"
  roots >>= (@?= 0)

-- 'insertEntry' makes a table only where something is kept, so sites that nobody asks cost nothing.
caches :: IO ()
caches = withDirectory $ \d -> do
  a <- page d "a" "a"
  shared <- newShared
  let key name = C.pack (a ++ name)
  withSharing shared 2 $ \sharing -> do
    forM_ names $ \_ -> sharedCaches sharing (key "")
    sharingHeld sharing >>= (@?= 2) . length
    forM_ (take 3 names) $ \name -> sharedCaches sharing (key name)
    sharingHeld sharing >>= (@?= 8) . length
    -- Another generation has its own view of what is kept.
    withSharing shared 2 $ \next -> do
      sharingHeld next >>= (@?= 0) . length
      _ <- sharedCaches next (key "")
      sharingHeld next >>= (@?= 2) . length

differ :: IO ()
differ = withDirectory $ \d -> do
  a <- page d "a" "a"
  b <- page d "b" "b"
  B.writeFile (a </> "f.txt") "file"
  B.writeFile (a </> ".secret") "hidden"
  let headed value s = s {siteFiles = defaultFileOptions {fileHeaderRules = [either error id (parseHeaderRule ("**=X-Which: " ++ value))]}}
      sites =
        site a ["plain"]
          :| [ headed "one" (site a ["one"]),
               headed "two" (site a ["two"]),
               (site a ["hidden"]) {siteHidden = True},
               (site a ["other"]) {siteIndexes = ["f.txt"]},
               routed (site a ["routed"]) [("/f.txt", RespondWith status410 [] "gone")],
               routed (site a ["below"]) [("/x", FilesIn b)],
               routed (site a ["deeper"]) [("/x/y", FilesIn b)]
             ]
  serving FirstSite sites $ \running _ -> with running $ \client -> replicateM_ 2 $ do
    let which name path = (\answer -> (answerCode answer, answerHeader answer "x-which")) <$> of' client name path
    which "plain" "/f.txt" >>= (@?= (200, Nothing))
    which "one" "/f.txt" >>= (@?= (200, Just "one"))
    which "two" "/f.txt" >>= (@?= (200, Just "two"))
    which "hidden" "/.secret" >>= (@?= (200, Nothing))
    which "plain" "/.secret" >>= (@?= (404, Nothing))
    of' client "other" "/" >>= answersWith 200 "file"
    of' client "plain" "/" >>= answersWith 200 "a"
    which "routed" "/f.txt" >>= (@?= (410, Nothing))
    of' client "below" "/x/" >>= answersWith 200 "b"
    of' client "deeper" "/x/y/" >>= answersWith 200 "b"
    which "deeper" "/x/" >>= (@?= (404, Nothing))

reloaded :: IO ()
reloaded = withDirectory $ \d -> do
  a <- page d "a" "old"
  b <- page d "b" "switched"
  createSymbolicLink a (d </> "current")
  let sites = site (d </> "current") ["a.example"] :| [site (d </> "current") ["b.example"]]
  serving FirstSite sites $ \running again -> with running $ \client -> do
    of' client "a.example" "/" >>= answersWith 200 "old"
    of' client "b.example" "/" >>= answersWith 200 "old"
    B.writeFile (a </> "index.html") "new one"
    again sites >>= either (fail . show) pure
    of' client "a.example" "/" >>= answersWith 200 "new one"
    createSymbolicLink b (d </> "next")
    renameFile (d </> "next") (d </> "current")
    again sites >>= either (fail . show) pure
    of' client "b.example" "/" >>= answersWith 200 "switched"
    of' client "a.example" "/" >>= answersWith 200 "switched"

rates :: IO ()
rates = withDirectory $ \d -> do
  a <- page d "a" "a"
  let limited s = s {siteGuard = noGuard {guardRate = Just (RateLimit (seconds 3600) 2)}}
      sites = limited (site a ["a.example"]) :| [limited (site a ["b.example"]), site a ["c.example"]]
  serving FirstSite sites $ \running again -> with running $ \client -> do
    let ask' name = answerCode <$> of' client name "/"
    mapM ask' ["a.example", "a.example", "a.example"] >>= (@?= [200, 200, 429])
    mapM ask' ["b.example", "b.example", "b.example"] >>= (@?= [200, 200, 429])
    replicateM 5 (ask' "c.example") >>= \codes -> assertBool (show codes) (all (== 200) codes)
    again sites >>= either (fail . show) pure
    mapM ask' ["a.example", "b.example", "c.example"] >>= (@?= [429, 429, 200])
