-- | The search of chapter 13 in a 'ParIO' that has exceptions.
--
-- The chapter sets this as a puzzle and only names its answer; this one is written in the same spirit, with
-- what the first idea brings along. A computation ends with 'Either' at every bind, an 'IVar' holds one,
-- and 'get' raises what its child raised. So an exception to the right of a hit is invisible, and one to its
-- left is raised, as in @findseq@. The application changes by a line: 'fork' and 'put' become 'spawn',
-- since after an exception there would be nothing to put.
--
-- What is still wrong, and what Heddle.Par.IO does about it, is in @docs/papers/pcph-ch13.md@: every bind pays;
-- an error in a pure value, forced by 'spawn' outside any 'try', is missed; 'try' also swallows the
-- asynchronous exceptions meant for a worker; and after a hit or an exception nobody is cancelled.
module Main
  ( main,
  )
where

import Control.DeepSeq (NFData (rnf))
import Control.Exception (SomeException, throwIO, try)
import Control.Monad (ap, liftM)
import Control.Monad.IO.Class (MonadIO (liftIO))
import Control.Monad.Par.Class qualified as Par
import Control.Monad.Par.IO qualified as Par
import Data.List (sort)
import System.Directory (doesDirectoryExist, getDirectoryContents)
import System.Environment (getArgs)
import System.FilePath ((</>))

main :: IO ()
main = do
  [s, d] <- getArgs
  runParIO (find s d) >>= print

newtype ParIO a = ParIO {attempt :: Par.ParIO (Either SomeException a)}

instance Functor ParIO where
  fmap = liftM

instance Applicative ParIO where
  pure = ParIO . pure . Right
  (<*>) = ap

instance Monad ParIO where
  m >>= k = ParIO (attempt m >>= either (pure . Left) (attempt . k))

instance MonadIO ParIO where
  liftIO io = ParIO (liftIO (try io))

newtype IVar a = IVar (Par.IVar (Either SomeException a))

spawn :: NFData a => ParIO a -> ParIO (IVar a)
spawn child = ParIO $ do
  v <- Par.new
  Par.fork $ do
    r <- attempt child
    either (const ()) rnf r `seq` Par.put_ v r
  pure (Right (IVar v))

get :: IVar a -> ParIO a
get (IVar v) = ParIO (Par.get v)

runParIO :: ParIO a -> IO a
runParIO p = Par.runParIO (attempt p) >>= either throwIO pure

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
      v <- spawn (find s p)
      inner (v : ivars)
