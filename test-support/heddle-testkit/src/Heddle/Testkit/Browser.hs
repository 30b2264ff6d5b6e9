-- | Pages in a headless browser, on machines that have one.
module Heddle.Testkit.Browser
  ( inBrowser,
  )
where

import Control.Exception (bracket)
import System.Directory (createDirectory, findExecutable, getTemporaryDirectory, removeDirectoryRecursive, removeFile)
import System.Exit (ExitCode (..))
import System.IO (hClose, openBinaryTempFile)
import System.Process (readProcessWithExitCode)

-- | Load a file in a window of that width and pass on the document as it is after its scripts have run. Without
-- Chromium nothing is tried, and the answer says so.
inBrowser :: Int -> FilePath -> (String -> IO ()) -> IO String
inBrowser width path continue =
  findExecutable "chromium" >>= \case
    Nothing -> pure "not tried: chromium is not installed"
    Just program -> do
      folder <- getTemporaryDirectory
      bracket (openBinaryTempFile folder "heddle.chromium" >>= \(p, h) -> p <$ (hClose h >> removeFile p >> createDirectory p)) removeDirectoryRecursive $ \profile -> do
        (code, out, complaints) <-
          readProcessWithExitCode
            program
            ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=" ++ show width ++ ",800", "--user-data-dir=" ++ profile, "--virtual-time-budget=10000", "--dump-dom", "file://" ++ path]
            ""
        if code == ExitSuccess
          then "" <$ continue out
          else fail ("chromium: " ++ complaints)
