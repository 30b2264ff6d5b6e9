-- | The search of chapter 13 in Heddle's 'ParIO', whose exceptions are sound.
--
-- Beside @findpar4@ the imports have changed, and 'leftmost' has taken the place of @subfind@, @dowait@ and
-- the list of 'IVar's between them: the answer, or the exception, is that of @findseq@, and what lies to its
-- right is cancelled.
module Main
  ( main,
  )
where

import Data.List (sort)
import Heddle.Par.IO (ParIO, leftmost, liftIO, runParIO)
import System.Directory (doesDirectoryExist, getDirectoryContents)
import System.Environment (getArgs)
import System.FilePath ((</>))

main :: IO ()
main = do
  [s, d] <- getArgs
  runParIO (find s d) >>= print

-- The test is as the chapter has it.
{- HLINT ignore find "Use elem" -}
find :: String -> FilePath -> ParIO (Maybe FilePath)
find s d = do
  fs <- liftIO $ getDirectoryContents d
  let fs' = sort $ filter (`notElem` [".", ".."]) fs
  if any (== s) fs'
    then return (Just (d </> s))
    else leftmost (map (subfind s . (d </>)) fs')

subfind :: String -> FilePath -> ParIO (Maybe FilePath)
subfind s p = do
  isdir <- liftIO $ doesDirectoryExist p
  if isdir then find s p else return Nothing
