-- |
-- Module      : Heddle.Serve.Directory
-- Description : What a directory holds
-- Stability   : internal, exempt from the version policy
--
-- One safe foreign call reads a whole directory; symbolic links are then followed as the server follows them for a request.
--
-- Cost: getdents, and fstatat and faccessat for each name.
-- Owner: values.
module Heddle.Serve.Directory
  ( Item (..),
    Contents (..),
    readDirectory,
    mostItems,
  )
where

import Control.Monad (filterM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Int (Int64)
import Data.Maybe (catMaybes)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, poke)
import Heddle.Http (Request)
import Heddle.Prim.Clock (EpochSeconds (..))
import Heddle.Prim.Errno (Errno (..))
import Heddle.Prim.Exception (finally, mask_)
import Heddle.Prim.File (FileKind (..), FileStatus (..))
import Heddle.Serve.OpenFile
import System.Posix.Types (Fd (..))

-- | A file or a directory.
data Item = Item
  { itemName :: !ByteString,
    itemDirectory :: !Bool,
    -- | In bytes; a directory's says nothing.
    itemSize :: !Int64,
    itemModified :: !EpochSeconds
  }
  deriving stock (Eq, Show)

-- | In no order; and how many names were left out because there are more than 'mostItems'.
data Contents = Contents ![Item] !Int

-- | Limit of the names that are read.
mostItems :: Int
mostItems = 20000

-- A name as the directory has it.
data Found = Found !Kind !Item

data Kind = Plain | Link
  deriving stock (Eq)

-- | The files and directories, those that a symbolic link names included, in a directory beneath the root that a request
-- could get: what may not be read, what leads out of the root, and what is neither is left out, and so are names that the
-- predicate refuses.
--
-- [Blocks]: holds an OS thread.
readDirectory :: Opening -> Request -> ByteString -> (ByteString -> Bool) -> IO (Either Errno Contents)
readDirectory opening request relative admits =
  mask_ $
    openHere opening request relative >>= \case
      Left e -> pure (Left e)
      Right directory -> do
        listed <- names (openFd directory) `finally` closeOpened directory
        case listed of
          Left e -> pure (Left e)
          Right (found, more) -> do
            admitted <- filterM (\(Found _ item) -> pure (admits (itemName item))) found
            Right . (`Contents` more) . catMaybes <$> traverse resolve admitted
  where
    resolve (Found kind item)
      | kind == Plain = pure (Just item)
      | otherwise =
        openHere opening request (if B.null relative then itemName item else B.concat [relative, slash, itemName item]) >>= \case
          Left _ -> pure Nothing
          Right file -> do
            let status = openStatus file
            closeOpened file
            pure $ case statusKind status of
              OtherKind -> Nothing
              what -> Just item {itemDirectory = what == Directory, itemSize = statusSize status, itemModified = EpochSeconds (statusSeconds status)}
    slash = B.singleton 47

-- What may be read, and the number left out.
names :: Fd -> IO (Either Errno ([Found], Int))
names (Fd fd) = alloca $ \list -> alloca $ \left -> do
  poke list nullPtr
  n <- c_list fd (fromIntegral mostItems) list left
  if n < 0
    then pure (Left (Errno (fromIntegral (negate n))))
    else do
      block <- peek list
      found <- records block (fromIntegral n) `finally` c_free block
      more <- peek left
      pure (Right (found, fromIntegral more))

-- As heddle_list_directory wrote them.
records :: Ptr Word8 -> Int -> IO [Found]
records block size = go 0 []
  where
    go at found
      | at >= size = pure found
      | otherwise = do
        let p = block `plusPtr` at
        kind <- peekByteOff p 0 :: IO Word8
        readable <- peekByteOff p 1 :: IO Word8
        low <- peekByteOff p 2 :: IO Word8
        high <- peekByteOff p 3 :: IO Word8
        bytes <- peekByteOff p 4
        second <- peekByteOff p 12
        let n = fromIntegral low + 256 * fromIntegral high
        name <- B.packCStringLen (castPtr (p `plusPtr` header), n)
        let item = Found (if kind == 2 then Link else Plain) (Item name (kind == 1) bytes (EpochSeconds second))
        go (at + header + n) (if readable == 1 then item : found else found)
    header = 20

foreign import ccall safe "heddle_list_directory" c_list :: CInt -> Int64 -> Ptr (Ptr Word8) -> Ptr Int64 -> IO Int64

-- Unsafe: frees memory.
foreign import ccall unsafe "heddle_free_list" c_free :: Ptr Word8 -> IO ()
