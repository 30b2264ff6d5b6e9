{-# LANGUAGE OverloadedStrings #-}

-- | What is explained is what the server does, also for symbolic links; and an operator hears why a file is refused.
module ExplainTest (tests) where

import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf, isPrefixOf)
import Heddle.Serve (ServeOptions (..))
import Heddle.Serve.Config
import Heddle.Serve.Internal (OnUnknownHost (..))
import Heddle.Testkit.HttpClient
import SiteFixture
import SitesTest (serving, servingTelling)
import System.Directory (createDirectory)
import System.FilePath (takeFileName, (</>))
import System.Posix.Files (createNamedPipe, createSymbolicLink)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "explained and served"
    [ testGroup
        "explainContradictedTheServer"
        [ testCase (unwords ("links" : words options)) (agrees options)
          | options <- ["", "follow-symlinks: yes", "spa: yes", "autoindex: yes", "hidden: yes", "routes: {/t: {try-files: ['/$rest', '/$rest/'], else: 410}, /other: {files: real/dir}}"]
        ],
      testCase "absoluteLinksLedOut: a link by its absolute path, or over the root and back, is followed beneath the root" absolute,
      testCase "refusedFilesHadNoReason: the operator hears of each, with its reason" told
    ]

-- A root with links of every kind; outside of it there is a directory with a file.
populate :: FilePath -> IO ()
populate d = do
  let root = d </> "real"
  forM_ ["real", "outside", "real/dir", "real/empty", "real/led", "real/absled"] (createDirectory . (d </>))
  createSymbolicLink root (d </> "current")
  forM_ ["real/index.html", "real/a.txt", "real/dir/inner.txt", "real/dir/index.html", "real/.hidden", "outside/x.txt"] (\name -> B.writeFile (d </> name) (C.pack name))
  createNamedPipe (root </> "fifo") 0o644
  forM_
    [ ("rel", "a.txt"),
      ("abs", root </> "a.txt"),
      ("abscurrent", d </> "current/a.txt"),
      ("absdir", root </> "dir"),
      ("absroot", root),
      ("climbing", "../" ++ takeFileName root ++ "/a.txt"),
      ("chained", "abs"),
      ("out", d </> "outside/x.txt"),
      ("outdir", d </> "outside"),
      ("outrel", "../outside/x.txt"),
      ("up", ".."),
      ("loop", "loop"),
      ("gone", "nothing"),
      ("absgone", root </> "nothing"),
      ("abshidden", root </> ".hidden"),
      ("prefix", root ++ "x"),
      ("etc", "/etc/passwd")
    ]
    (\(name, to) -> createSymbolicLink to (root </> name))
  createSymbolicLink (d </> "outside/x.txt") (root </> "led/index.html")
  createSymbolicLink (root </> "a.txt") (root </> "absled/index.html")
  -- Its name begins as the root's does.
  createDirectory (d </> "realx")

paths :: [String]
paths =
  ["/", "/none", "/.hidden"]
    ++ concat [["/" ++ name, "/" ++ name ++ "/"] | name <- ["a.txt", "rel", "abs", "abscurrent", "dir", "empty", "led", "absled", "absdir", "absroot", "climbing", "chained", "out", "outdir", "outrel", "up", "loop", "gone", "absgone", "abshidden", "prefix", "etc", "fifo"]]
    ++ ["/absdir/inner.txt", "/absroot/absdir/inner.txt", "/outdir/x.txt", "/up/outside/x.txt", "/up/real/a.txt", "/a.txt/more", "/t/abs", "/t/out", "/t/absled", "/t/none", "/t/dir", "/other", "/other/inner.txt"]

-- The sites of a configuration for "real" or "current".
configured :: FilePath -> [String] -> IO (Config, ServeOptions)
configured d more = do
  writeFile (d </> "site.yaml") (unlines more)
  config <- readConfig (d </> "site.yaml") >>= either (fail . unlines . map renderProblem) pure . readResult
  options <- either (fail . unlines . map renderProblem) pure (optionsOf (Position "site.yaml" 1 1) config)
  pure (config, options)

agrees :: String -> IO ()
agrees more = forM_ ["real", "current"] $ \root -> withDirectory $ \d -> do
  populate d
  (config, options) <- configured d ["root: " ++ root, more]
  serving FirstSite (serveSites options) $ \running _ -> forM_ paths $ \path -> do
    served <- answerCode <$> asking running "GET" (C.pack path) []
    said <- explain (Position "site.yaml" 1 1) config ("GET " ++ path) >>= either fail pure
    let explained = case [words rest | line <- said, "status:" `isPrefixOf` line, let rest = drop 7 line] of
          (code : _) : _ -> read (takeWhile (/= ':') code)
          _ -> 200
    assertEqual (unlines (path : said)) served explained

absolute :: IO ()
absolute = forM_ ["real", "current"] $ \root -> withDirectory $ \d -> do
  populate d
  (_, options) <- configured d ["root: " ++ root]
  serving FirstSite (serveSites options) $ \running _ -> do
    forM_ ["/abs", "/abscurrent", "/climbing", "/chained", "/absroot/a.txt", "/absled/"] $ \path ->
      -- Again from the cache.
      forM_ [1 :: Int, 2] $ \_ -> asking running "GET" path [] >>= answersWith 200 "real/a.txt"
    asking running "GET" "/absdir/" [] >>= answersWith 200 "real/dir/index.html"
    forM_ ["/out", "/outdir/x.txt", "/outdir/none.txt", "/outdir/none/x.txt", "/outdir/x.txt/x", "/outrel", "/up/outside/x.txt", "/up/outside/none.txt", "/led/", "/etc", "/etc/none"] $ \path -> asking running "GET" path [] >>= \answer -> assertEqual (C.unpack path) 403 (answerCode answer)
    asking running "GET" "/absgone" [] >>= (@?= 404) . answerCode

told :: IO ()
told = withDirectory $ \d -> do
  populate d
  (_, options) <- configured d ["root: real"]
  -- Each with a server of its own, which tells of each reason once a minute.
  let hears path status why = do
        heard <- newIORef []
        servingTelling (\what -> atomicModifyIORef' heard (\others -> (what : others, ()))) FirstSite (serveSites options) $ \running _ _ -> do
          asking running "GET" path [] >>= (@?= status) . answerCode
          said <- readIORef heard
          if null why then said @?= [] else assertBool (show said) (length said == 1 && all (`isInfixOf` concat said) [why, C.unpack path, show (status :: Int)])
  hears "/out" 403 "leads out"
  hears "/outdir/x.txt" 403 "leads out"
  hears "/fifo" 403 "not a file"
  hears "/empty/" 403 "no index"
  hears "/led/" 403 "leads out"
  hears "/none" 404 ""
  hears "/abs" 200 ""
  hears "/loop" 404 ""
