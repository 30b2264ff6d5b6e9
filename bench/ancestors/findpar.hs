-- | The search of chapter 13 with an 'Async' for every subdirectory.
--
-- The answer is that of @findseq@, and so is the error: the results are waited for from left to right.
module Main
  ( main,
  )
where

import Control.Concurrent.Async (Async, wait, withAsync)
import Data.List (sort)
import System.Directory (doesDirectoryExist, getDirectoryContents)
import System.Environment (getArgs)
import System.FilePath ((</>))

main :: IO ()
main = do
  [s, d] <- getArgs
  r <- find s d
  print r

-- The test is as the chapter has it.
{- HLINT ignore find "Use elem" -}
find :: String -> FilePath -> IO (Maybe FilePath)
find s d = do
  fs <- getDirectoryContents d
  let fs' = sort $ filter (`notElem` [".", ".."]) fs
  if any (== s) fs'
    then return (Just (d </> s))
    else do
      let ps = map (d </>) fs'
      foldr (subfind s) dowait ps []
  where
    dowait as = loop (reverse as)

    loop [] = return Nothing
    loop (a : as) = do
      r <- wait a
      case r of
        Nothing -> loop as
        Just p -> return (Just p)

subfind ::
  String ->
  FilePath ->
  ([Async (Maybe FilePath)] -> IO (Maybe FilePath)) ->
  [Async (Maybe FilePath)] ->
  IO (Maybe FilePath)
subfind s p inner asyncs = do
  isdir <- doesDirectoryExist p
  if not isdir
    then inner asyncs
    else withAsync (find s p) $ \a -> inner (a : asyncs)
