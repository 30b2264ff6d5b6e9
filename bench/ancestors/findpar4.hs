-- | The search of chapter 13 in monad-par's 'ParIO'.
--
-- It is kept as the chapter has it, which calls it cheating: an exception may be dropped or may end the
-- search, depending on the worker that meets it, and the search may then wait for an 'IVar' that nobody
-- fills.
module Main
  ( main,
  )
where

import Control.Monad.IO.Class (liftIO)
import Control.Monad.Par.Class (fork, get, new, put)
import Control.Monad.Par.IO (IVar, ParIO, runParIO)
import Data.List (sort)
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
    else do
      let ps = map (d </>) fs'
      foldr (subfind s) dowait ps []
  where
    dowait vs = loop (reverse vs)

    loop [] = return Nothing
    loop (v : vs) = do
      r <- get v
      case r of
        Nothing -> loop vs
        Just p -> return (Just p)

subfind ::
  String ->
  FilePath ->
  ([IVar (Maybe FilePath)] -> ParIO (Maybe FilePath)) ->
  [IVar (Maybe FilePath)] ->
  ParIO (Maybe FilePath)
subfind s p inner ivars = do
  isdir <- liftIO $ doesDirectoryExist p
  if not isdir
    then inner ivars
    else do
      v <- new
      fork (find s p >>= put v)
      inner (v : ivars)
