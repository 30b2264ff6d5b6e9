-- | Programs that a test compiles, against the packages of this build.
module Heddle.Testkit.Compile
  ( packageDatabase,
    sizePerLine,
  )
where

import Data.List (isPrefixOf)
import System.Directory (createDirectoryIfMissing, doesDirectoryExist, getTemporaryDirectory, listDirectory, removePathForcibly)
import System.Environment (getExecutablePath)
import System.FilePath (takeDirectory, (</>))
import System.Process (callProcess, getCurrentPid, readProcess)

-- | The bytes of code and data that each of a hundred lines adds to a module compiled with optimisation. Given are
-- the packages that it uses, its imports, a name for the folder, and line number n.
sizePerLine :: [String] -> [String] -> String -> (Int -> String) -> IO Int
sizePerLine packages imports label line = do
  one <- sizeWith 1
  many <- sizeWith 101
  pure ((many - one) `quot` 100)
  where
    sizeWith :: Int -> IO Int
    sizeWith count = do
      database <- packageDatabase
      temporary <- getTemporaryDirectory
      process <- getCurrentPid
      let folder = temporary </> ("heddle-lines-" <> label <> show count <> "-" <> show process)
          file = folder </> "Lines.hs"
      removePathForcibly folder
      createDirectoryIfMissing True folder
      writeFile file . unlines $
        ["{-# LANGUAGE OverloadedStrings #-}", "module Lines where"] <> imports <> map line [1 .. count]
      callProcess "ghc" $
        ["-v0", "-O2", "-c", "-package-db", database] <> concat [["-package", name] | name <- packages] <> ["-outputdir", folder, file]
      sizes <- readProcess "size" [folder </> "Lines.o"] ""
      removePathForcibly folder
      case map words (lines sizes) of
        [_, code : data_ : _] -> pure (read code + read data_)
        _ -> fail ("unexpected output of size: " <> sizes)

-- | Where packages are registered before they are installed: above the test program.
packageDatabase :: IO FilePath
packageDatabase = getExecutablePath >>= go . takeDirectory
  where
    go folder = do
      found <- doesDirectoryExist (folder </> "packagedb")
      if found
        then do
          databases <- filter ("ghc-" `isPrefixOf`) <$> listDirectory (folder </> "packagedb")
          case databases of
            [one] -> pure (folder </> "packagedb" </> one)
            _ -> fail ("not one package database in " <> folder)
        else
          if takeDirectory folder == folder
            then fail "no package database above the test program"
            else go (takeDirectory folder)
