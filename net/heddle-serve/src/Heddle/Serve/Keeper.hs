{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Serve.Keeper
-- Description : A process that keeps the right to read the certificates' files
-- Stability   : internal, exempt from the version policy
--
-- ACME clients leave keys that only root may read, and renew them while the server runs as another user. So before the server gives up
-- root's rights it leaves the right to open these files, and no others, with a small process (cbits/heddle_keeper.c), which it asks when
-- it may not open one itself. A successor inherits the way to ask.
--
-- Cost: a process that sleeps, without memory of its own but what the server changes after the start; two messages for each file that
-- is looked at, once a minute.
-- Owner: the descriptor is the process's for good; the keeper ends when nobody has it.
module Heddle.Serve.Keeper
  ( Keeper,
    takeKeeper,
    startKeeper,
    openByKeeper,
    keeperVariables,
    keeperDescriptors,
  )
where

import Control.Monad (unless, void)
import Data.ByteString qualified as B
import Data.Foldable (toList)
import Data.Maybe (isJust)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Array (withArrayLen)
import Foreign.Ptr (Ptr)
import GHC.Foreign qualified as Foreign (withCString)
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno (..), checked, errnoNumber, pattern EACCES, pattern EPERM)
import Heddle.Prim.Exception (trySync)
import Heddle.Prim.File (openFile, readOnly)
import Heddle.Tls (FileOpener)
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.IO (FdOption (CloseOnExec), setFdOption)
import System.Posix.Types (Fd)
import System.Posix.User (getEffectiveUserID)
import Text.Read (readMaybe)

-- | The way to ask, if there is one.
newtype Keeper = Keeper (Ref (Maybe Fd))

-- | The keeper of the process whose place this one takes, if it had one; once.
--
-- [Blocks]: never.
takeKeeper :: IO Keeper
takeKeeper = do
  given <- (>>= readMaybe) <$> lookupEnv variable
  unsetEnv variable
  let fd = fromIntegral <$> (given :: Maybe Int)
  -- A number that is none makes each question fail, with its error.
  mapM_ (\d -> void (trySync (setFdOption d CloseOnExec True))) fd
  Keeper <$> newRef fd

-- | Start the process for these files, before root's rights are given up: not if there is one, or nothing to give up or to keep.
--
-- [Blocks]: holds an OS thread while the process is copied.
-- [Throws]: 'IOError' if there are no processes or descriptors.
startKeeper :: Keeper -> [FilePath] -> IO ()
startKeeper (Keeper ref) files = do
  there <- isJust <$> readRef ref
  me <- getEffectiveUserID
  unless (there || null files || me /= 0) $ do
    encoding <- getFileSystemEncoding
    let withPaths done = \case
          [] -> withArrayLen (reverse done) $ \n p -> checked "fork" (fromIntegral <$> c_start p (fromIntegral n))
          path : rest -> Foreign.withCString encoding path $ \p -> withPaths (p : done) rest
    fd <- withPaths [] files
    writeRef ref (Just (fromIntegral fd))

-- | Open a file, by the keeper where this process may not.
--
-- [Blocks]: holds an OS thread, for ten seconds if the keeper does not answer.
openByKeeper :: Keeper -> FileOpener
openByKeeper (Keeper ref) path = do
  r <- openFile path readOnly
  readRef ref >>= \case
    Just fd | negate r `elem` map errnoNumber [EACCES, EPERM] -> fromIntegral <$> B.useAsCString path (c_open (fromIntegral fd))
    _ -> pure r

-- | Variables that a successor needs.
keeperVariables :: Keeper -> IO [(String, String)]
keeperVariables keeper = map (\fd -> (variable, show (fromIntegral fd :: Int))) <$> keeperDescriptors keeper

-- | Descriptors that a successor must inherit.
keeperDescriptors :: Keeper -> IO [Fd]
keeperDescriptors (Keeper ref) = toList <$> readRef ref

variable :: String
variable = "HEDDLE_KEEPER"

-- safe: copies the process.
foreign import ccall safe "heddle_keeper_start" c_start :: Ptr CString -> CInt -> IO CInt

-- safe: waits for the other process.
foreign import ccall safe "heddle_keeper_open" c_open :: CInt -> CString -> IO CInt
